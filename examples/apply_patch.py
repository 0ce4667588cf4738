"""A patch of the model is shown as a diff of the real file; when the file changes meanwhile, the approval is void.

Prints:

    asks: update 'greeting.py'
      - print("hello")
      + print("hello, world")
    asks again: what it would change has changed since it was shown: review it again before you decide
    # written by Ada
    print("hello, world")
    Done.
"""

import asyncio
import tempfile
from pathlib import Path

from keyturn import Agent, ApplyPatchTool, Diff, Runner, WorkspaceEditor
from keyturn.testing import ScriptedModel

PATCH = {
    "type": "apply_patch_call",
    "call_id": "p1",
    "operation": {
        "type": "update_file",
        "path": "greeting.py",
        "diff": '-print("hello")\n+print("hello, world")\n',
    },
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        greeting = Path(place, "greeting.py")
        greeting.write_text('print("hello")\n')
        tool = ApplyPatchTool(WorkspaceEditor(place))  # asks, unless it is given needs_approval=False
        agent = Agent(name="Coder", model=ScriptedModel([[PATCH], "Done."]), tools=[tool])

        result = await Runner.run(agent, "Greet the world.")
        (call,) = result.interruptions
        (diff,) = call.preview.blocks
        assert isinstance(diff, Diff)
        print("asks:", call.preview.summary)
        print(f"  - {diff.before.strip()}\n  + {diff.after.strip()}")

        state = result.to_state()
        state.approve(call)
        greeting.write_text("# written by Ada\n" + greeting.read_text())  # while the approval was on its way
        result = await Runner.run(agent, state)
        (call,) = result.interruptions
        print("asks again:", call.reason)

        state = result.to_state()
        state.approve(call)
        result = await Runner.run(agent, state)
        print(greeting.read_text() + str(result.final_output))


if __name__ == "__main__":
    asyncio.run(main())
