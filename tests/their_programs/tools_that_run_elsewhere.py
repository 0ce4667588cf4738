"""Tools that a client has are declared by their schema alone.

Prints:

    [('locate', {'city': 'Rom'})]
    [('locate', {'city': 'Rome'})]
    It is at 41.9, 12.5.
"""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset
from scripted import call, model

schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
client = ExternalToolset([ToolDefinition(name="locate", description="Find a city.", parameters_json_schema=schema)])
steps = model(call("locate", "l1", city="Rom"), call("locate", "l2", city="Rome"), "It is at 41.9, 12.5.")
agent = Agent(steps, toolsets=[client], output_type=[str, DeferredToolRequests])
result = agent.run_sync("Where is Rome?")
print([(part.tool_name, part.args_as_dict()) for part in result.output.calls])
answers = DeferredToolResults(calls={"l1": ModelRetry("no such city")})
result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=answers)
print([(part.tool_name, part.args_as_dict()) for part in result.output.calls])
answers = result.output.build_results(calls={"l2": {"lat": 41.9, "lon": 12.5}})
result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=answers)
print(result.output)
