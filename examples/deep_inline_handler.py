"""A handler decides waiting calls without ending the run; what it leaves open waits for a person.

Prints:

    handler: write_file yes
    handler: edit_file left open
    waits: ['edit_file']
    files: ['/notes.md']
"""

from keyturn import DeferredToolRequests, DeferredToolResults, RunContext
from keyturn.deep import DeepAgentDeps, create_deep_agent
from keyturn.testing import ScriptedModel, function_call

MODEL = ScriptedModel(
    [
        function_call("write_file", {"path": "/notes.md", "content": "milk\n"}),
        function_call("edit_file", {"path": "/notes.md", "old_string": "milk", "new_string": "oat milk"}),
        "Done.",
    ]
)


def decide(ctx: RunContext[DeepAgentDeps], requests: DeferredToolRequests) -> DeferredToolResults | None:
    results = requests.build_results()
    for call in requests.approvals:
        safe = call.tool_name == "write_file" and call.args_as_dict()["path"].endswith(".md")
        print("handler:", call.tool_name, "yes" if safe else "left open")
        if safe:
            results.approvals[call.tool_call_id] = True
    return results if results.approvals else None


def main() -> None:
    agent = create_deep_agent(MODEL, interrupt_on={"write_file": True, "edit_file": True}, handle_deferred=decide)
    deps = DeepAgentDeps()
    result = agent.run_sync("Write it down.", deps=deps)
    print("waits:", [call.tool_name for call in result.output.approvals])
    print("files:", list(deps.files))


if __name__ == "__main__":
    main()
