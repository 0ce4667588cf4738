"""An answer of a type.

Prints:

    Event Fair ['ann', 'bob']
    [1, 2]
"""

import asyncio

from agents import Agent, AgentOutputSchema, Runner
from agents.testing import ScriptedModel, assistant_message
from pydantic import BaseModel


class Event(BaseModel):
    name: str
    people: list[str]


async def main() -> None:
    model = ScriptedModel([[assistant_message('{"name": "Fair", "people": ["ann", "bob"]}')]])
    result = await Runner.run(Agent(name="Calendar", model=model, output_type=Event), "The fair")
    event = result.final_output_as(Event)
    print(type(event).__name__, event.name, event.people)
    model = ScriptedModel([[assistant_message('{"response": [1, 2]}')]])
    loose = AgentOutputSchema(list[int], strict_json_schema=False)
    print((await Runner.run(Agent(name="List", model=model, output_type=loose), "x")).final_output)


asyncio.run(main())
