"""A function says which calls of a deep agent ask: writes below /workspace do not, all others do.

Prints:

    asks: /etc/hosts
    files: ['/workspace/notes.md']
    told: ["Created 'workspace/notes.md'.", 'Not there.']
"""

from typing import Any

from keyturn import DeferredToolResults, RunContext, ToolDenied
from keyturn.deep import DeepAgentDeps, create_deep_agent
from keyturn.testing import ScriptedModel, function_call, tool_outputs

MODEL = ScriptedModel(
    [
        [
            function_call("write_file", {"path": "/workspace/notes.md", "content": "milk\n"}),
            function_call("write_file", {"path": "/etc/hosts", "content": "127.0.0.1 bank\n"}),
        ],
        "Done.",
    ]
)


def outside(ctx: RunContext[DeepAgentDeps], params: dict[str, Any], call_id: str) -> bool:
    return not params["path"].startswith(("/workspace/", "/tmp/"))


def main() -> None:
    agent = create_deep_agent(MODEL, interrupt_on={"write_file": outside})
    deps = DeepAgentDeps()
    result = agent.run_sync("Write it down.", deps=deps)
    (call,) = result.output.approvals
    print("asks:", call.args["path"])

    no = DeferredToolResults(approvals={call.tool_call_id: ToolDenied("Not there.")})
    agent.run_sync(deps=deps, message_history=result.all_messages(), deferred_tool_results=no)
    print("files:", list(deps.files))
    print("told:", list(tool_outputs(MODEL.calls[-1]).values()))


if __name__ == "__main__":
    main()
