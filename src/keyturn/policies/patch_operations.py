"""Find what a rule compares of a patch: each operation by itself, and the place to which one moves a file.

A patch of one operation has its fields as arguments, and one of several has a list of them. A rule that names a field
means every file that a patch touches.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, cast

from ..core.policy import CallView
from ..core.predicates.predicate import Where
from ..support.patch_moves import besides

_KIND = "apply_patch"
_SEVERAL, _MOVES = "operations", "move_to"


def operations_of(call: CallView, where: Where | None) -> list[Any]:
    """Return the arguments that a predicate is asked of, one after another; of any other call, its own.

    A move is two more operations. A predicate that names the list, or the place that a file goes to, is asked
    of just that.

    >>> moved = {"type": "update_file", "path": "src/a", "move_to": "etc/b"}
    >>> call = CallView("apply_patch", "apply_patch", "desk", {"operations": [moved]}, digest="5e1f", call_id="c1")
    >>> [each["path"] for each in operations_of(call, {"path": {"under": "src"}})]
    ['src/a', 'src/a', 'etc/b']
    """
    if call.kind != _KIND or not where or not isinstance(call.params, dict):
        return [call.params]
    named = {name.partition(".")[0] for name in where}
    given = cast("dict[str, Any]", call.params)
    several: Any = given.get(_SEVERAL)
    if _SEVERAL in named or (several is not None and not isinstance(several, list)):
        return [given]
    operations = cast("list[Any]", several) or [given]
    if _MOVES in named:
        return operations
    told = [cast("dict[str, Any]", each) for each in operations if isinstance(each, dict)]
    return [*operations, *chain.from_iterable(map(besides, told))]
