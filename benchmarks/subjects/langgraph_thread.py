"""What both LangGraph subjects share: a paused thread as bytes, and a thread made of them again.

The checkpointer is in memory. A saved state is the thread's newest checkpoint, its metadata and its pending writes
in the checkpointer's own serializer (bytes: it has no text form); loading puts them into a thread of their own.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from ..script import UNLIMITED

NUMBERS = count()


def new_thread() -> dict[str, Any]:
    """The configuration of a thread that nobody has used."""
    return {"configurable": {"thread_id": f"t{next(NUMBERS)}", "checkpoint_ns": ""}, "recursion_limit": UNLIMITED}


def save(saver: InMemorySaver, config: dict[str, Any]) -> bytes:
    """The thread's newest checkpoint."""
    saved = saver.get_tuple(config)
    if saved is None:
        raise LookupError(f"no checkpoint of {config}")
    _, data = saver.serde.dumps_typed((saved.checkpoint, saved.metadata, saved.pending_writes))
    return data


def load(saver: InMemorySaver, data: bytes) -> tuple[dict[str, Any], list[Any]]:
    """A thread that continues from the checkpoint, and what its interrupts ask. Other threads are forgotten: nothing
    may stay live but what the bytes hold."""
    for old in list(saver.storage):
        saver.delete_thread(old)
    checkpoint, metadata, writes = saver.serde.loads_typed(("msgpack", data))
    config = new_thread()
    put = saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])
    by_task: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for task_id, channel, value in writes:
        by_task[task_id].append((channel, value))
    for task_id, pairs in by_task.items():
        saver.put_writes(put, pairs, task_id)
    return config, [one.value for _, channel, value in writes if channel == "__interrupt__" for one in value]
