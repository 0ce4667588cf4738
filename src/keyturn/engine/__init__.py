"""The engine: one loop that moves a run forward, and the handles by which callers hold one."""
