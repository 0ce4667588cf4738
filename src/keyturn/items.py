"""Re-export what a run produced under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import CompactionItem as CompactionItem
from . import HandoffCallItem as HandoffCallItem
from . import HandoffOutputItem as HandoffOutputItem
from . import InputItem as InputItem
from . import ItemHelpers as ItemHelpers
from . import MCPApprovalRequestItem as MCPApprovalRequestItem
from . import MCPApprovalResponseItem as MCPApprovalResponseItem
from . import MCPListToolsItem as MCPListToolsItem
from . import MessageOutputItem as MessageOutputItem
from . import ModelResponse as ModelResponse
from . import ReasoningItem as ReasoningItem
from . import RunItem as RunItem
from . import ToolApprovalItem as ToolApprovalItem
from . import ToolCallItem as ToolCallItem
from . import ToolCallOutputItem as ToolCallOutputItem
from . import ToolSearchCallItem as ToolSearchCallItem
from . import ToolSearchOutputItem as ToolSearchOutputItem
from . import TResponseInputItem as TResponseInputItem
from .core.items import TResponseOutputItem as TResponseOutputItem
from .core.items import TResponseStreamEvent as TResponseStreamEvent
from .engine.views.items import RunItemBase as RunItemBase
from .support.missing import speaks

speaks(__name__)
