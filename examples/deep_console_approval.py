"""The person at the keyboard decides for a deep agent: diffs, then approve, edit, reject or grant for later.

Prints:

    edit_file: 'notes.txt' as it would be
    | -milk
    | +oat milk
    Edited 'notes.txt'.
"""

from keyturn import Runner
from keyturn.console import decide
from keyturn.deep import DeepAgentDeps, StateBackend, create_deep_agent
from keyturn.testing import ScriptedModel, function_call, tool_outputs

EDIT = {"path": "/notes.txt", "old_string": "milk", "new_string": "oat milk"}


def main() -> None:
    model = ScriptedModel([function_call("edit_file", EDIT), "Done."])
    core = create_deep_agent(model, interrupt_on={"edit_file": True}).core_agent()
    deps = DeepAgentDeps(backend=StateBackend({"/notes.txt": "milk\n"}))
    shown: list[str] = []
    result = Runner.run_sync(core, "We need oat milk.", context=deps)
    while result.interruptions:
        # Without `ask` and `show` it is the keyboard and the screen.
        state = decide(result, ask=lambda _prompt: "a", show=shown.append, width=100)
        result = Runner.run_sync(core, state)

    print("edit_file: 'notes.txt' as it would be")
    print(*(line.strip() for text in shown for line in text.split("\n") if "| -" in line or "| +" in line), sep="\n")
    print(*tool_outputs(model.calls[-1]).values())


if __name__ == "__main__":
    main()
