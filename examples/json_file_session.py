"""A session of your own: any class with these four methods will do, and it imports nothing of Keyturn.

This one keeps each conversation in a JSON file that you can read. It is for one process: two that
write the same conversation need a store with a lock, such as SQLiteSession.
"""

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any


class JsonFileSession:
    def __init__(self, session_id: str, directory: Path) -> None:
        self.session_id = session_id
        # In hex, so that an id that comes from a user ("../../etc/passwd") stays inside the directory, and "Ada" and
        # "ada" stay apart where file names ignore case.
        self.path = directory / f"{session_id.encode().hex()}.json"

    async def get_items(self, limit: int | None = None) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.path.read_text()) if self.path.exists() else []
        return items if limit is None else items[max(0, len(items) - limit) :]

    async def add_items(self, items: list[dict[str, Any]]) -> None:
        # Reading and writing are one step for other tasks: nothing awaited here ever gives way to them.
        self._write(await self.get_items() + items)

    async def pop_item(self) -> dict[str, Any] | None:
        items = await self.get_items()
        last = items.pop() if items else None
        self._write(items)
        return last

    async def clear_session(self) -> None:
        self.path.unlink(missing_ok=True)

    def _write(self, items: list[dict[str, Any]]) -> None:
        # First beside the file and then in its place: a crash leaves the old conversation or the new one.
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(items, indent=1))
        os.replace(draft, self.path)


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        session = JsonFileSession("ada", Path(directory))
        await session.add_items([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
        print(await session.get_items(limit=1))


if __name__ == "__main__":
    asyncio.run(main())
