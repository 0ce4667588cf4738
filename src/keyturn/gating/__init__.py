"""Approval for any Python function: the call waits for a person's decision, and then runs once.

>>> gate = Gated("memory://")
>>> @gate(expires="4h")
... def refund(order: str, amount: int) -> str:
...     return f"refunded {amount}"
>>> with decide_all("approve"):
...     refund("A1", 5)
'refunded 5'
"""

from __future__ import annotations

from .context import GatedRun as GatedRun
from .context import decide_all as decide_all
from .errors import CallClaimed as CallClaimed
from .errors import CallDenied as CallDenied
from .errors import CallExpired as CallExpired
from .errors import CallFailed as CallFailed
from .errors import CallInDoubt as CallInDoubt
from .errors import CallWaiting as CallWaiting
from .errors import CallWithdrawn as CallWithdrawn
from .errors import GatedCallError as GatedCallError
from .gate import Gated as Gated
from .gate import gated as gated
from .gated_function import GatedFunction as GatedFunction
from .gated_function import Pending as Pending
