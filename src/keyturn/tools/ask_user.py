"""A tool by which the model asks a person a question, with choices or for an answer of a given type.

An answer that does not fit is not taken: the same call asks again and says why. Nothing is decided here, and the tool
changes nothing, so that a call that was interrupted asks again by itself.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from ..core.digest import canonical
from ..core.errors import BadJson
from ..core.preview import Block, Json, Preview, Text
from ..core.strict import parse
from .base import NeedsInput
from .context import ToolContext
from .function import FunctionTool, function_tool
from .functions.refusal import complaints

_DESCRIPTION = (
    "Ask the person you work for, and wait for the answer. Use it where only they can know or choose: "
    "one clear question at a time."
)


def ask_user(name: str = "ask_user", description: str = _DESCRIPTION, *, answer_type: Any = None) -> FunctionTool:
    """Make a tool with which the model asks a person.

    The model gives the question, and choices where there are some: then the answer is one of them. With `answer_type`
    (a type, a model, a `Literal[...]`) the answer must fit that. Answer with `RunState.answer(item, ...)`; `reject`
    tells the model that nobody will.

    >>> from keyturn import Agent, Runner
    >>> from keyturn.testing import ScriptedModel, function_call
    >>> asks = function_call("ask_user", {"question": "Which colour?", "choices": ["Blue", "Red"]})
    >>> agent = Agent("painter", model=ScriptedModel([[asks], "Blue it is."]), tools=[ask_user()])
    >>> state = Runner.run_sync(agent, "paint the door").to_state()
    >>> [item] = state.get_interruptions()
    >>> item.requests
    {'question': 'Which colour?', 'choices': ['Blue', 'Red']}
    >>> state.answer(item, "Blue")
    >>> Runner.run_sync(agent, state).final_output
    'Blue it is.'
    """

    async def ask(context: ToolContext[Any], question: str, choices: list[str] | None = None) -> Any:
        """Ask.

        Args:
            question: What you want to know, in one or two sentences.
            choices: The possible answers, where there are only these.
        """
        return _asked(context.resumed, {"question": question, **({"choices": choices} if choices else {})}, None)

    if answer_type is None:
        return function_tool(ask, name_override=name, description_override=description, read_only=True, preview=_shown)
    adapter: TypeAdapter[Any] = TypeAdapter(answer_type)
    schema = adapter.json_schema()

    async def ask_typed(context: ToolContext[Any], question: str) -> Any:
        """Ask.

        Args:
            question: What you want to know, in one or two sentences.
        """
        asked = {"question": question, "schema": schema}
        choices = schema.get("enum")
        return _asked(context.resumed, {**asked, "choices": choices} if choices else asked, adapter)

    return function_tool(
        ask_typed, name_override=name, description_override=description, read_only=True, preview=_shown
    )


def is_question(tool: object) -> bool:
    """Return whether each call of a tool is a question to a person.

    >>> is_question(ask_user()), is_question(ask_user(answer_type=int)), is_question(object())
    (True, True, False)
    """
    return getattr(tool, "_preview", None) is _shown


def _asked(resumed: Any, asked: dict[str, Any], adapter: TypeAdapter[Any] | None) -> Any:
    """Return the answer, that there will be none, or the question (again) as `NeedsInput`."""
    if resumed is None:
        return NeedsInput(asked, preview=_shown(asked))
    if resumed.refused:
        return "The question was not answered" + (f": {resumed.message}" if resumed.message else ".")
    try:
        return _free(resumed.answers, asked) if adapter is None else _typed(resumed.answers, adapter)
    except ValueError as error:
        again = {**asked, "problem": complaints(error) if isinstance(error, ValidationError) else str(error)}
        return NeedsInput(again, preview=_shown(again))


def _free(answer: object, asked: dict[str, Any]) -> Any:
    choices: list[str] | None = asked.get("choices")
    if choices and answer not in choices:
        raise ValueError("the answer must be one of the choices, as it is written there")
    if answer is None or answer == "":
        raise ValueError("the answer is empty; to give none, reject the question")
    return answer


def _typed(answer: object, adapter: TypeAdapter[Any]) -> Any:
    """Convert the answer to its type, as JSON; a text may be JSON that fits."""
    try:
        value = adapter.validate_json(canonical(answer))
    except ValidationError as misfit:
        if not isinstance(answer, str):
            raise
        try:
            meant = canonical(parse(answer))
        except BadJson:
            raise misfit from None
        value = adapter.validate_json(meant)
    return adapter.dump_python(value, mode="json")


def _shown(asked: Any) -> Preview:
    """Show the question: the model's words are marked as such, and nothing else is called its words."""
    question = cast("str", asked["question"])
    blocks: list[Block] = []
    if "problem" in asked:
        blocks.append(Text(asked["problem"], label="the previous answer was not accepted"))
    blocks.append(Text(question, label="the model asks, in its own words"))
    if asked.get("choices"):
        blocks.append(Json(asked["choices"], label="choices"))
    elif "schema" in asked:
        blocks.append(Json(asked["schema"], label="what the answer must fit"))
    return Preview(tuple(blocks), summary=question)
