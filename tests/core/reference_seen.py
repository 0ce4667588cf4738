"""What can be seen of the reference: what is true of a run, and what the world should do about it."""

from __future__ import annotations

from typing import Any

READY = ("allowed", "approved", "edited", "supplied")
DEAD = ("denied", "rejected", "expired", "answered", "ran", "did_not_run")


class Seen:
    """The facts of a reference, and two views of them."""

    status: str
    usage: list[int]
    frames: dict[str, Any]
    calls: dict[str, Any]
    grants: dict[str, Any]

    def asks(self, name: str, what: str) -> bool:
        """Whether a frame waits for its model, or for a judgement."""
        raise NotImplementedError

    def sends(self, name: str) -> bool:
        """Whether a frame's model is asked next with calls that its provider runs."""
        raise NotImplementedError

    def may_run(self, call: Any) -> bool:
        """Whether what is around a call lets it start."""
        raise NotImplementedError

    def waiting(self) -> list[Any]:
        """The calls that wait, in their order."""
        raise NotImplementedError

    def view(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "reviews": self.reviewed(),
            "usage": self.usage,
            "frames": {
                name: (frame["agent"], frame["turn"], frame["items"], frame["queued"], frame["tripped"])
                for name, frame in self.frames.items()
            },
            "calls": {
                name: (call["state"], call["args"], call["recheck"], 1 + call["times"] + call["rounds"])
                for name, call in self.calls.items()
            },
            "waits": {
                call["id"]: (
                    *(call["terms"], call["since"], sorted(call["votes"]), call["warned"], call["marks"]),
                    [(step["terms"], sorted(vote.decider.id for vote in step["votes"])) for step in call["met"]],
                    len(call["withdrawn"]),
                )
                for call in self.waiting()
                if self.status in ("running", "failed")
            },
            "grants": {name: grant["uses"] for name, grant in self.grants.items()},
        }

    def pending(self) -> set[tuple[str, str]]:
        """What the world should do: everything that is neither done nor waits for people."""
        if self.status != "running":
            return set()
        does: set[tuple[str, str]] = set()
        for name, frame in self.frames.items():
            spent = frame["limit"] is not None and frame["turn"] >= frame["limit"]
            if frame["tripped"]:
                does.add(("tripped", name))
                continue
            if frame["guard"]:
                does.add(("guard", name))
            if not frame["barrier"]:
                continue
            if (
                (self.asks(name, "model") or self.sends(name))
                and frame["guard"] not in ("before", "ahead")
                and not (spent and frame["guard"])
            ):
                does.add(("exhausted" if spent else "model", name))
            if self.asks(name, "judge") and not frame["guard"]:
                does.add(("judge", name))
        for name, call in self.calls.items():
            if call["state"] == "proposed" or (call["recheck"] and call["state"] in READY):
                does.add(("screen", name))
            elif call["state"] in DEAD:
                does.add(("settle", name))
            elif (
                call["state"] in READY
                and self.may_run(call)
                and not (call["proposal"].by_provider and self.frames[call["frame"]]["barrier"])
            ):
                does.add(("run", name))
        return does
