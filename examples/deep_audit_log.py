"""Who approved what of a deep agent, read from the journal that is its audit trail.

Prints:

    approve by ann: {'path': '/a.md', 'content': 'x\\n'}
    reject by bob: {'path': '/b.md', 'content': 'x\\n'}
    the journal is sound: True
    files: ['/a.md']
"""

import asyncio
import tempfile

from keyturn import App
from keyturn.deep import create_deep_agent
from keyturn.testing import ScriptedModel, check, function_call

MODEL = ScriptedModel(
    [[function_call("write_file", {"path": path, "content": "x\n"}) for path in ("/a.md", "/b.md")], "Done."]
)


async def main() -> None:
    agent = create_deep_agent(MODEL, interrupt_on={"write_file": True}, name="ops")
    with tempfile.TemporaryDirectory() as place:
        async with App([agent], f"sqlite:///{place}/runs.db") as app:
            run = await app.start("ops", "Write both.")
            await run.wait()
            first, second = sorted(await app.inbox.list(), key=lambda row: row.params["path"])
            await app.inbox.approve(first, by="ann", note="reviewed")
            await app.inbox.reject(second, by="bob", message="Not that one.")
            result = await run.result()

            for verdict in ("approve", "reject"):
                for row in await app.inbox.list(run=run.id, state=verdict):
                    print(f"{row.state} by {row.by}: {row.params}")
            print("the journal is sound:", (await check(app.journal)).ok)
    print("files:", list(result.context_wrapper.context.files))


if __name__ == "__main__":
    asyncio.run(main())
