"""The stand-in for a model with Pydantic AI: says what it is told to, one step after the other."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel


class Answer:
    """An answer of the type that the run wants."""

    def __init__(self, value: Any, kind: int = 0) -> None:
        self.value, self.kind = value, kind


def call(tool: str, label: str = "c1", /, **args: Any) -> ToolCallPart:
    return ToolCallPart(tool, args, tool_call_id=label)


def model(*steps: Any) -> FunctionModel:
    left = list(steps)

    def parts(info: Any) -> list[Any]:
        step = left.pop(0)
        if isinstance(step, Answer):
            return [ToolCallPart(info.output_tools[step.kind].name, step.value, tool_call_id="answer")]
        return [TextPart(step)] if isinstance(step, str) else step if isinstance(step, list) else [step]

    def answer(messages: Any, info: Any) -> ModelResponse:
        return ModelResponse(parts=parts(info))

    async def stream(messages: Any, info: Any) -> Any:
        for place, part in enumerate(parts(info)):
            if isinstance(part, TextPart):
                for word in part.content.split(" "):
                    yield word + " "
            else:
                yield {place: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    return FunctionModel(answer, stream_function=stream)
