"""Patches that ask, and an editor of the program's own.

Prints:

    Created. created a.txt
"""

import asyncio

from agents import Agent, ApplyPatchTool, Runner
from agents.editor import ApplyPatchOperation, ApplyPatchResult
from agents.testing import ScriptedModel, assistant_message
from openai.types.responses import ResponseApplyPatchToolCall


class Editor:
    def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"created {operation.path}")

    def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"updated {operation.path}")

    def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"deleted {operation.path}")


async def main() -> None:
    operation = {"type": "create_file", "path": "a.txt", "diff": "+hello\n"}
    call = {"id": "ap1", "type": "apply_patch_call", "call_id": "a1", "status": "completed", "operation": operation}
    model = ScriptedModel([[ResponseApplyPatchToolCall.model_validate(call)], [assistant_message("Created.")]])
    agent = Agent(name="Coder", model=model, tools=[ApplyPatchTool(editor=Editor(), needs_approval=True)])
    result = await Runner.run(agent, "Create a.txt")
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    print(result.final_output, model.calls[-1].input[-1]["output"])


asyncio.run(main())
