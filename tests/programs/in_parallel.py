"""Three runs at once and one that chooses.

Prints:

    ['text 0', 'text 1', 'text 2'] text 1
"""

import asyncio

from agents import Agent, ItemHelpers, Runner
from agents.testing import ScriptedModel, assistant_message


async def main() -> None:
    def agent(name: str, text: str) -> Agent:
        return Agent(name=name, model=ScriptedModel([[assistant_message(text)]]))

    results = await asyncio.gather(*(Runner.run(agent(f"T{n}", f"text {n}"), "Translate") for n in range(3)))
    texts = [ItemHelpers.text_message_outputs(result.new_items) for result in results]
    chosen = await Runner.run(agent("Picker", "text 1"), "Choose: " + ", ".join(texts))
    print(texts, chosen.final_output)


asyncio.run(main())
