"""The table's rows: which workload, which of its figures, and what Keyturn must reach. A row is one line here."""

from __future__ import annotations

from dataclasses import dataclass, field

from .subjects import Subject


@dataclass(frozen=True)
class Row:
    """One line of the table. `must` and `aim` are for Keyturn; lower is better everywhere."""

    key: str
    title: str
    workload: str
    figure: str
    must: float | None = None
    aim: float | None = None
    params: dict[str, int] = field(default_factory=dict)
    watched: bool = False  # shown with --all only

    @property
    def deep(self) -> bool:
        """Whether it is of deep agents."""
        return self.workload == "deep"

    def measures(self, subject: Subject) -> bool:
        """Whether there is such a figure of a subject."""
        return subject.deep or subject.name == "keyturn" if self.deep else not subject.deep


def watch(key: str, title: str, workload: str, figure: str, **params: int) -> Row:
    """A row without a target, shown with --all only."""
    return Row(key, title, workload, figure, params=params, watched=True)


PAGE = {"n": 100_000, "kind": 3}
DECIDING = {"n": 200, "people": 50}

ROWS = (
    Row("import", "import, ms", "imports", "ms", 150, 100),
    Row("import-rss", "RSS after import, MiB", "imports", "mib", 45, 35),
    Row("turns-20", "one turn with one ungated tool, run of 20 turns, us", "turns", "us", 100, 40, {"n": 20}),
    Row("turns-200", "the same, 200 turns, us", "turns", "us", 100, 40, {"n": 200}),
    Row("turns-1000", "the same, 1,000 turns, us", "turns", "us", 100, 40, {"n": 1000}),
    Row("cycle", "pause, save, load, approve, resume, ms", "cycle", "ms", 0.4, 0.15, {"n": 50}),
    Row("rounds-200", "200 approval rounds in a conversation, text each, ms", "rounds", "ms", 250, 120, {"n": 200}),
    Row("save", "save a state with 1,000 calls (its first save), ms", "state", "save_ms", 3, 1, {"n": 1000}),
    Row("load", "load it, ms", "state", "load_ms", 10, 5, {"n": 1000}),
    Row("size", "its size, kB", "state", "kb", 700, 400, {"n": 1000}),
    Row("held-50", "50 calls held in one reply, approved, resumed, ms", "held", "ms", 4, 2, {"n": 50}),
    Row("paused-500", "500 runs paused at once: RSS a run, KiB", "paused", "kib", 20, 8, {"n": 500}),
    Row("deltas", "streamed text delta to the consumer, us", "deltas", "us", 8, 4, {"n": 2000}),
    Row("realtime-audio", "realtime: audio to the consumer, us a piece", "realtime", "audio_us", 25, 10, {"n": 1000}),
    Row("realtime-call", "realtime: a call to its result, us", "realtime", "call_us", 1500, 600, {"n": 200}),
    Row("deltas-wire", "streamed text delta over HTTP, Responses API, us of CPU", "wire", "us", params={"n": 2000}),
    Row("deltas-sdk", "the same by the provider's SDK alone, us of CPU", "wire", "sdk_us", params={"n": 2000}),
    *(
        watch(f"deltas-{api}{kind}", f"{title}, {what}", "wire", figure, n=2000, api=number)
        for number, api, title in (
            (1, "chat", "delta over HTTP, Chat Completions"),
            (2, "anthropic", "delta over HTTP, Anthropic"),
            (3, "google", "delta over HTTP, Gemini"),
        )
        for kind, what, figure in (("", "us of CPU", "us"), ("-sdk", "its SDK alone", "sdk_us"))
    ),
    Row("durable", "durable round on SQLite (WAL, FULL), of 50, ms", "durable", "ms", 2.5, 1.2, {"n": 50}),
    Row("durable-kb", "its database after 50 rounds, kB", "durable", "kb", 120, 70, {"n": 50}),
    Row("durable-mb", "bytes written to disk meanwhile, MB", "durable", "mb", 2.2, 1.3, {"n": 50}),
    Row("deep-first", "first turn of a deep agent, making it included, ms", "deep", "ms", params={"n": 1, "kind": 0}),
    Row("deep-50", "its 50th turn with 30 files, ms", "deep", "ms", params={"n": 50, "kind": 1}),
    Row("deep-paused", "100 of them paused: RSS each, KiB", "deep", "kib", params={"n": 100, "kind": 2}),
    watch("deep-200", "a deep agent's 200th turn with 30 files, ms", "deep", "ms", n=200, kind=1),
    Row("audit", "one line of an export verified offline, us of CPU", "audit", "us", 10, 6, {"n": 100_000}),
    Row("inbox", "50 of 100,000 open requests, one filter, p99, ms CPU", "inbox", "ms", 10, 5, {"open": 100_000}),
    Row("api", "a request of the API above a bare FastAPI route, us of CPU", "server", "us", params={"n": 200}),
    Row("api-decide", "decide to resumed run over HTTP, p99, ms", "server", "ms", 250, 60, {"n": 100, "kind": 1}),
    Row("api-watch", "a decision shown to 500 streams, ms", "server", "ms", 1000, 300, {"n": 500, "kind": 2}),
    Row("page", "the inbox's page over 100,000 open requests, p99, ms", "server", "ms", 100, 50, PAGE),
    Row("page-kb", "that page and all that a browser loads for it, KB", "server", "first_kb", 60, 40, PAGE),
    Row("insights", "insights over 100,000 decisions, ms CPU", "inbox", "insights_ms", 1000, 500, {"decided": 100_000}),
    Row("quorum", "a word of a quorum with roles, times one without", "deciding", "times", 2, 1.5, DECIDING),
    watch("quorum-ms", "that word, ms CPU", "deciding", "terms_ms", **DECIDING),
    watch("quorum-plain", "a word on a request without terms, ms CPU", "deciding", "plain_ms", **DECIDING),
    watch("durable-1000", "the same, of 1,000, ms", "durable", "ms", n=1000),
    watch("first-answer", "import to the first answer, ms", "first_answer", "ms"),
    watch("first-answer-rss", "RSS after the first answer, MiB", "first_answer", "mib"),
    watch("rounds-200-mb", "text written in the 200 rounds, MB", "rounds", "mb", n=200),
    watch("rounds-1000", "1,000 rounds with a reload each, ms", "rounds", "ms", n=1000),
    watch("rounds-1000-mb", "text written meanwhile, MB", "rounds", "mb", n=1000),
    watch("save-again", "save it again, unchanged, ms", "state", "save_again_ms", n=1000),
    watch("sync-tool", "one turn with a sync tool, run of 200 turns, us", "turns", "us", n=200, sync=1),
    watch("alone-500", "500 runs paused one by one: RSS a run, KiB", "paused", "kib", n=500, together=0),
    watch("suspending", "text delta of a model that suspends at each, us", "deltas", "us", n=2000, suspend=1),
)


def chosen(names: str | None, everything: bool) -> list[Row]:
    """The rows to show: those named (a name also stands for all rows it begins), or the table, or all."""
    if names is None:
        return [row for row in ROWS if everything or not row.watched]
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if not any(row.key == name or row.key.startswith(name + "-") for row in ROWS):
            raise SystemExit(f"no row {name!r}; there are: {', '.join(row.key for row in ROWS)}")
    return [row for row in ROWS if any(row.key == name or row.key.startswith(name + "-") for name in wanted)]
