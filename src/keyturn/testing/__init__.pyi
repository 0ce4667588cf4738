"""The public names, for type checkers; the list is `_HOMES` in `__init__.py`."""

from ..audit.checker import check as check
from ..audit.checker import heads as heads
from ..audit.report import Told as Told
from ..models.reply_events import StreamEvent as StreamEvent
from ..models.scripted.items import assistant_message as assistant_message
from ..models.scripted.items import function_call as function_call
from ..models.scripted.items import last_user_text as last_user_text
from ..models.scripted.items import reasoning as reasoning
from ..models.scripted.items import refusal as refusal
from ..models.scripted.items import tool_outputs as tool_outputs
from ..models.scripted.model import ScriptedModel as ScriptedModel
from ..models.scripted.script import InvalidModelStep as InvalidModelStep
from ..models.scripted.script import ModelScriptError as ModelScriptError
from ..models.scripted.script import ModelStep as ModelStep
from ..models.scripted.script import UnconsumedModelSteps as UnconsumedModelSteps
from ..models.scripted.script import UnexpectedModelCall as UnexpectedModelCall
from .crash import Answer as Answer
from .decisions import approve_all as approve_all
from .decisions import decide as decide
from .decisions import drive as drive
from .decisions import reject_all as reject_all
from .suites.journals import JournalSuite as JournalSuite
from .suites.models import ModelSuite as ModelSuite
from .suites.policies import PolicySuite as PolicySuite
from .suites.sessions import SessionSuite as SessionSuite
from .suites.tools import ToolSuite as ToolSuite
