"""An approval that nobody gives: after its time the call is rejected, and the agent goes on without it.

Prints:

    waits until a time: True
    Done.
    files: []
"""

import asyncio
import tempfile

from keyturn import App, Approval
from keyturn.deep import create_deep_agent
from keyturn.testing import ScriptedModel, function_call

MODEL = ScriptedModel([function_call("write_file", {"path": "/a.md", "content": "x\n"}), "Done."])


async def main() -> None:
    terms = Approval(expires="200ms")  # "4h" in earnest; on_expiry= may escalate or ask again
    agent = create_deep_agent(MODEL, interrupt_on={"write_file": terms}, name="ops")
    with tempfile.TemporaryDirectory() as place:
        async with App([agent], f"sqlite:///{place}/runs.db") as app:
            run = await app.start("ops", "Write it down.")
            await run.wait()
            (request,) = await app.inbox.list()
            print("waits until a time:", request.expires_at is not None)
            while (await run.get()).status != "finished":
                await asyncio.sleep(0.05)
            result = await run.result()
    print(result.final_output)
    print("files:", list(result.context_wrapper.context.files))


if __name__ == "__main__":
    asyncio.run(main())
