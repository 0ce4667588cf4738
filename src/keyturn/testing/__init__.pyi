"""The public names, for type checkers; the list is `_HOMES` in `__init__.py`."""

from ..audit.checker import check as check
from ..audit.checker import heads as heads
from ..audit.report import Told as Told
from ..models.reply_events import StreamEvent as StreamEvent
from ..models.script import InvalidModelStep as InvalidModelStep
from ..models.script import ModelScriptError as ModelScriptError
from ..models.script import ModelStep as ModelStep
from ..models.script import UnconsumedModelSteps as UnconsumedModelSteps
from ..models.script import UnexpectedModelCall as UnexpectedModelCall
from ..models.scripted import ScriptedModel as ScriptedModel
from ..models.scripted_items import assistant_message as assistant_message
from ..models.scripted_items import function_call as function_call
from ..models.scripted_items import last_user_text as last_user_text
from ..models.scripted_items import reasoning as reasoning
from ..models.scripted_items import refusal as refusal
from ..models.scripted_items import tool_outputs as tool_outputs
from .crash import Answer as Answer
from .decisions import approve_all as approve_all
from .decisions import decide as decide
from .decisions import drive as drive
from .decisions import reject_all as reject_all
from .journals import JournalSuite as JournalSuite
from .models import ModelSuite as ModelSuite
from .policies import PolicySuite as PolicySuite
from .sessions import SessionSuite as SessionSuite
from .tools import ToolSuite as ToolSuite
