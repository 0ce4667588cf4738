"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..core.errors import UserError


@contextmanager
def replaced(path: Path) -> Generator[BinaryIO]:
    """Write a file that is there whole or not at all, and that nobody else may read."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
