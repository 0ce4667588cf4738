"""Answers of a type, of one of two types, and of a plain type.

Prints:

    name='Rome' people=2800000
    Unknown(why='too vague')
    [1, 2]
    Hello.
"""

from pydantic import BaseModel
from pydantic_ai import Agent
from scripted import Answer, model


class City(BaseModel):
    name: str
    people: int


class Unknown(BaseModel):
    why: str


print(Agent(model(Answer({"name": "Rome", "people": 2_800_000})), output_type=City).run_sync("Which?").output)
either = Agent(model(Answer({"why": "too vague"}, kind=1)), output_type=[City, Unknown])
print(repr(either.run_sync("Which?").output))
print(Agent(model(Answer({"response": [1, 2]})), output_type=list[int]).run_sync("Which?").output)
print(Agent(model("Hello.", Answer({"response": 7}))).run_sync("Hi.").output)
