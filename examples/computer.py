"""A model uses a computer. A call that comes with a safety check of the provider waits, and approving acknowledges it.

Prints:

    typed: hello
    asks: sensitive_domain: This is a bank.
    clicked at 40, 12
    acknowledged: ['check_1']
"""

import asyncio

from keyturn import Agent, Computer, ComputerTool, Runner, Text
from keyturn.testing import ScriptedModel


class Desktop(Computer):
    """Yours drives a browser or a virtual machine, in sync or async methods."""

    def screenshot(self) -> str:
        return "iVBORw0KGgo="

    def type(self, text: str) -> None:
        print("typed:", text)

    def click(self, x: int, y: int, button: str) -> None:
        print(f"clicked at {x}, {y}")

    def double_click(self, x: int, y: int) -> None: ...
    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None: ...
    def wait(self) -> None: ...
    def move(self, x: int, y: int) -> None: ...
    def keypress(self, keys: list[str]) -> None: ...
    def drag(self, path: list[tuple[int, int]]) -> None: ...


CHECK = {"id": "check_1", "code": "sensitive_domain", "message": "This is a bank."}
TYPE = {"type": "computer_call", "call_id": "c1", "actions": [{"type": "type", "text": "hello"}]}
CLICK = {"type": "click", "x": 40, "y": 12, "button": "left"}
PAY = {"type": "computer_call", "call_id": "c2", "actions": [CLICK], "pending_safety_checks": [CHECK]}


async def main() -> None:
    model = ScriptedModel([[TYPE], [PAY], "Done."])
    agent = Agent(name="Clerk", model=model, tools=[ComputerTool(Desktop())])

    result = await Runner.run(agent, "Say hello, then pay the bill.")
    (waiting,) = result.interruptions
    (words, *_) = waiting.preview.blocks
    assert isinstance(words, Text)
    print("asks:", words.text)
    state = result.to_state()
    state.approve(waiting, by="ada")
    await Runner.run(agent, state)
    print("acknowledged:", [check["id"] for check in model.calls[2].input[-1]["acknowledged_safety_checks"]])


if __name__ == "__main__":
    asyncio.run(main())
