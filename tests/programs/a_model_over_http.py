"""A Responses model that is asked over HTTP, of a server on this machine.

Prints:

    ['{"amount": 5}']
    Paid. paid 5 ['pay']
"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

CALL = {
    "type": "function_call",
    "id": "fc1",
    "call_id": "c1",
    "name": "pay",
    "arguments": '{"amount": 5}',
    "status": "completed",
}
TEXT = {"type": "output_text", "text": "Paid.", "annotations": []}
MESSAGE = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [TEXT]}
asked: list[dict] = []


class Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": f"resp_{len(asked)}", "object": "response", "created_at": 0, "model": "gpt-x", "usage": usage}
        response |= {
            "output": [CALL] if len(asked) == 1 else [MESSAGE],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        body = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None: ...


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


async def main() -> None:
    set_tracing_disabled(True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    async with AsyncOpenAI(api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1") as client:
        agent = Agent(name="Payer", model=OpenAIResponsesModel("gpt-x", client), tools=[pay])
        result = await Runner.run(agent, "Pay 5")
        print([item.arguments for item in result.interruptions])
        state = result.to_state()
        state.approve(result.interruptions[0])
        result = await Runner.run(agent, state)
    server.shutdown()
    server.server_close()
    print(result.final_output, asked[-1]["input"][-1]["output"], [tool["name"] for tool in asked[0]["tools"]])


asyncio.run(main())
