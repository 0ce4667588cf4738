"""A second run goes on from the messages of the first, in hand and as JSON.

Prints:

    2 4 2
    request [('user-prompt', 'The capital of Italy?')]
    response [('text', 'Rome.')]
    request [('user-prompt', 'How many live there?')]
    response [('text', 'About 2.8 million.')]
    Yes. 6 bytes
    ['The capital of Italy?']
"""

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_core import to_jsonable_python
from scripted import model

agent = Agent(model("Rome.", "About 2.8 million.", "Yes."), instructions="Be brief.")
first = agent.run_sync("The capital of Italy?")
second = agent.run_sync("How many live there?", message_history=first.new_messages())
print(len(first.all_messages()), len(second.all_messages()), len(second.new_messages()))
for message in second.all_messages():
    print(message.kind, [(part.part_kind, part.content) for part in message.parts])
same = ModelMessagesTypeAdapter.validate_python(to_jsonable_python(second.all_messages()))
third = agent.run_sync("Are you sure?", message_history=same)
print(third.output, len(third.all_messages()), type(third.all_messages_json()).__name__)
again = ModelMessagesTypeAdapter.validate_json(third.all_messages_json())
print([part.content for part in again[0].parts if part.part_kind == "user-prompt"])
