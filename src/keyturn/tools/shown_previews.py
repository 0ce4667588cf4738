"""Previews as people are shown them: never blank, and without what the tool marks as secret.

A kind whose preview takes secrets out itself says so with `redacts`. Of any other kind, the arguments without the
secrets are shown in its place once a tool has secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ..core.preview import Json, Preview, Text, redact

_F = TypeVar("_F", bound=Callable[..., Any])


def redacts(preview: _F) -> _F:
    """Declare that a tool's preview shows nothing of what the tool marks as secret."""
    preview.__dict__["redacts"] = True
    return preview


def plain_preview(params: Any, secrets: tuple[str, ...] = (), note: str = "") -> Preview:
    """Make a preview of the arguments themselves, with a word in front where there is one."""
    shown = Json(redact(params, secrets))
    return Preview((Text(note), shown) if note else (shown,))


def not_blank(preview: Preview, params: Any, secrets: tuple[str, ...] = ()) -> Preview:
    """Return a preview, with the arguments themselves if it has no block: what nobody sees, nobody approves.

    >>> not_blank(Preview((), summary="pay"), {"to": "ada"}).blocks
    (Json(value={'to': 'ada'}, label=''),)
    """
    if preview.blocks:
        return preview
    return msgspec.structs.replace(preview, blocks=plain_preview(params, secrets).blocks)


def shown_preview(tool: object, made: Preview, params: Any, secrets: tuple[str, ...]) -> Preview:
    """Return what a tool made of arguments as people are shown it; what it was made of is kept.

    >>> shown_preview(object(), Preview((Text("as s3"),)), {"key": "s3"}, ("key",)).blocks
    (Json(value={'key': '[redacted]'}, label=''),)
    """
    if secrets and not getattr(getattr(type(tool), "preview", None), "redacts", False):
        return Preview(plain_preview(params, secrets).blocks, basis=made.basis)
    return not_blank(made, params, secrets)
