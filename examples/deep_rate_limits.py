"""A policy beside `interrupt_on`: after two files in an hour every further write is denied, and nobody is asked.

Prints:

    waits: ['/1.md', '/2.md']
    waits: []
    files: ['/1.md', '/2.md']
    told: over the limit of 2 calls in 1h
"""

from keyturn import Calls, Policy, Rule
from keyturn.deep import DeepAgentDeps, create_deep_agent
from keyturn.testing import ScriptedModel, function_call, tool_outputs

WRITES = [function_call("write_file", {"path": f"/{number}.md", "content": "x\n"}) for number in (1, 2, 3)]
MODEL = ScriptedModel([WRITES[:2], WRITES[2], "Done."])


def main() -> None:
    policy = Policy(Rule("deny", tool="write_file", over=Calls(2, per="1h")))
    agent = create_deep_agent(MODEL, interrupt_on={"write_file": True}, policy=policy)
    deps = DeepAgentDeps()
    result = agent.run_sync("Write three files.", deps=deps)
    print("waits:", [call.args["path"] for call in result.output.approvals])

    yes = result.output.build_results(approve_all=True)
    result = agent.run_sync(deps=deps, message_history=result.all_messages(), deferred_tool_results=yes)
    print("waits:", [call.args["path"] for call in getattr(result.output, "approvals", [])])
    print("files:", list(deps.files))
    print("told:", list(tool_outputs(MODEL.calls[-1]).values())[-1])


if __name__ == "__main__":
    main()
