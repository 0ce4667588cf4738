"""A person approves a command with other arguments than the model gave: every command gets a time limit.

Prints:

    asked: {'command': 'sleep 60; echo done', 'timeout': 120}
    ran: sleep 60; echo done, for 1 s at most
    told: (no exit code: the time was up)
"""

import tempfile

from keyturn import DeferredToolResults, LocalExecutor, ToolApproved, ToolDenied
from keyturn.deep import FilesystemBackend, create_deep_agent
from keyturn.testing import ScriptedModel, function_call, tool_outputs

MODEL = ScriptedModel([function_call("execute", {"command": "sleep 60; echo done"}), "It took too long."])


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        # SandboxBackend(place) runs commands in a sandbox.
        agent = create_deep_agent(MODEL, backend=FilesystemBackend(place, shell=LocalExecutor(place)))
        result = agent.run_sync("Wait a minute.")
        approvals: dict[str, bool | ToolApproved | ToolDenied] = {}
        for call in result.output.approvals:
            print("asked:", call.args)
            changed = {**call.args_as_dict(), "timeout": 1}
            approvals[call.tool_call_id] = ToolApproved(override_args=changed)
            print(f"ran: {changed['command']}, for {changed['timeout']} s at most")
        agent.run_sync(
            message_history=result.all_messages(), deferred_tool_results=DeferredToolResults(approvals=approvals)
        )
    (output,) = tool_outputs(MODEL.calls[-1]).values()
    print("told:", output.splitlines()[-1])


if __name__ == "__main__":
    main()
