"""Send a file that was written for one answer, and remove it however that ends."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send


class ExportedFile(FileResponse):
    """Answers with a file of a folder of its own, which is removed once the answer was sent or was given up."""

    def __init__(self, folder: TemporaryDirectory[str], path: Path, **more: Any) -> None:
        super().__init__(path, **more)
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        with self._folder:
            await super().__call__(scope, receive, send)
