"""LangGraph: the interrupts of a thread are requests in the inbox, and the decisions resume the thread once.

```python
from keyturn.langgraph import Mirror

mirror = Mirror(graph, "https://keyturn.example")
await graph.ainvoke({"messages": [...]}, {"configurable": {"thread_id": "order-7"}})
await mirror.ask("order-7")     # what is paused appears in the inbox
await mirror.resume("order-7")  # once it is decided, in whichever process has the graph
```
"""

from __future__ import annotations

from .mirror import Mirror as Mirror
