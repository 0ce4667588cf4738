"""Words for the instructions of agents that hand over to each other."""

from __future__ import annotations

RECOMMENDED_PROMPT_PREFIX = (
    "You are one of several agents that work on this conversation together. Each has instructions and tools of its "
    "own. Where another agent is better suited, hand the conversation to it by calling the function whose name begins "
    "with `transfer_to_`; it then answers in your place and sees what was said. To the user you are all one "
    "assistant: never mention agents or that you hand over."
)


def prompt_with_handoff_instructions(prompt: str) -> str:
    """Put the words on handoffs in front of an agent's instructions.

    >>> prompt_with_handoff_instructions("Refund orders.").endswith("Refund orders.")
    True
    """
    return f"{RECOMMENDED_PROMPT_PREFIX}\n\n{prompt}"
