"""Say why an execution stops: one set of reasons, `Writer.stops`.

While it is empty the run goes on.

Whoever finds a reason adds it. The loop reads there what may still begin, the execution whether there is another round
and whether the run failed, the lease when somebody should look at the run next. Several may stand at once: a worker
that leaves may be cut short.

- `after_turn`: its caller said so (`cancel("after_turn")`). No model is asked; calls that may run do. The run is not
  due: its caller goes on with it.
- `cancelled`: its caller said so (`cancel()`), and the task is cancelled. What is in flight is in doubt; the listener's
  stream just ends.
- `leaving`: a worker ends, or the run was only to be begun. Nothing begins, what was begun is recorded; that the task
  is cancelled then fails no run. It is due at once.
- `limit`: a usage limit is reached (`UsageMeter.reached`). No model is asked; all else is done, then its caller hears.
- `failed`: an error that is the run's own stops it. Nothing begins, what is in flight ends, then the error is raised.
- `source_down`: what brings the run its tools cannot be reached, and a worker moves the run: it is no failure. It is
  due some seconds from now, whoever takes it up tries again.
- `not_here`: a worker could not take the run up, since its agents or tools are not those of the run, or something else
  failed before anything was done. It is due at once, for other workers; this one leaves it alone for a minute.
- `elsewhere`: a call that people have answered stands open in another process, which lives. It is due at once, for that
  one; this worker leaves it alone for a minute.
- `cut_short`: somebody stopped waiting for an append, which may be kept nevertheless. The run is due at once, whatever
  it waits for. An append that fails otherwise takes this back.
- `taken_over`: another process has the run, or the store refused a line of this one. What is in flight is cut off: the
  other one says what becomes of it.
- `left`: its caller waits no longer for what follows an error. What was not written to the session yet, whoever resumes
  the run adds.
- `unanswered`: a write to the session is under way, or was cut off, and may arrive later. The lease runs out by itself.
- `store_failed`: the store did not answer. It may hold a step more than is known here: then the run is due at once.
- `damaged`: what the journal has is not what was written. People must mend it: it is looked at now and then.
"""

from __future__ import annotations

from typing import Literal

StopReason = Literal[
    "after_turn", "cancelled", "leaving", "limit", "failed", "source_down", "not_here", "elsewhere",
    "cut_short",
    "taken_over", "left", "unanswered", "store_failed", "damaged"
]  # fmt: skip

#: The caller wanted it so: a stream that ends for one of these ends without an error.
BY_CALLER: frozenset[StopReason] = frozenset({"after_turn", "cancelled"})

#: Somebody wants an end at the next good place: there is no other round for what others decide meanwhile.
NO_MORE_ROUNDS: frozenset[StopReason] = frozenset({"after_turn", "leaving"})

#: Others write the session of the run, or nobody knows whether it was written.
WITH_OTHERS: frozenset[StopReason] = frozenset({"unanswered", "left", "taken_over"})
