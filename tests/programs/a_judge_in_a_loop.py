"""One agent writes, another judges, until it passes.

Prints:

    draft feedback='more life' score='needs_improvement'
    better draft feedback='good' score='pass'
    4
"""

import asyncio
from typing import Literal

from agents import Agent, Runner
from agents.testing import ScriptedModel, assistant_message
from pydantic import BaseModel


class Verdict(BaseModel):
    feedback: str
    score: Literal["pass", "needs_improvement"]


async def main() -> None:
    writer = Agent(
        name="Writer", model=ScriptedModel([[assistant_message("draft")], [assistant_message("better draft")]])
    )
    verdicts = ['{"feedback": "more life", "score": "needs_improvement"}', '{"feedback": "good", "score": "pass"}']
    judge = Agent[None](
        name="Judge", model=ScriptedModel([[assistant_message(text)] for text in verdicts]), output_type=Verdict
    )
    items = [{"content": "A story", "role": "user"}]
    while True:
        draft = await Runner.run(writer, items)
        items = draft.to_input_list()
        verdict = (await Runner.run(judge, items)).final_output
        print(draft.final_output, verdict)
        if verdict.score == "pass":
            break
        items.append({"content": f"Feedback: {verdict.feedback}", "role": "user"})
    print(len(items))


asyncio.run(main())
