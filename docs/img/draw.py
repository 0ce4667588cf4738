"""The picture of the idea, drawn in code: once for light pages, once for dark ones.

`python -m tests.test_docs` writes it anew, and the tests notice when it is stale.
"""

from __future__ import annotations

from string import Template

THEMES = {
    "light": {"ink": "#1f2328", "dim": "#59636e", "line": "#c4ccd4", "box": "#f6f8fa", "a": "#0969da", "b": "#1a7f37"},
    "dark": {"ink": "#e6edf3", "dim": "#9198a1", "line": "#3d444d", "box": "#151b23", "a": "#4493f8", "b": "#3fb950"},
}

# Each step of the log: where it stands, what happened, who did it (a: the model, b: the person, ink: the runtime).
STEPS = [
    (30, "proposed", "a"),
    (136, "asked", "ink"),
    (414, "approved", "b"),
    (520, "started", "ink"),
    (626, "finished", "ink"),
]

KEY = """<g transform="$place" fill="none" stroke="$colour" stroke-width="3.5" stroke-linecap="round">
<circle cx="0" cy="0" r="11"/><path d="M11 0H52M42 0V9M50 0V11"/></g>"""

STEP = """<rect x="$x" y="212" width="96" height="34" rx="6" fill="$box" stroke="$colour"/>
<text x="$middle" y="234" text-anchor="middle" fill="$colour">$word</text>"""

PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 752 300" width="752" height="300" role="img" aria-labelledby="t d" font-family="ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="15">
<title id="t">The model turns one key, a person turns the other</title>
<desc id="d">A tool call that the model proposed and a decision that a person made meet at one gate; only then the tool runs. Below, the run is a log of five steps with a pause in the middle, in which the process may end.</desc>
<text x="30" y="40" fill="$a" font-weight="600">The model</text>
<text x="30" y="62" fill="$dim">wants to run</text>
<text x="30" y="84" fill="$ink" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">delete_backups(...)</text>
<text x="722" y="40" text-anchor="end" fill="$b" font-weight="600">A person</text>
<text x="722" y="62" text-anchor="end" fill="$dim">sees exactly that,</text>
<text x="722" y="84" text-anchor="end" fill="$dim">and decides</text>
$left
$right
<rect x="326" y="22" width="100" height="86" rx="10" fill="$box" stroke="$line" stroke-width="1.5"/>
<g fill="$ink"><circle cx="352" cy="58" r="6"/><path d="M349 60h6l3 14h-12z"/><circle cx="400" cy="58" r="6"/><path d="M397 60h6l3 14h-12z"/></g>
<text x="376" y="98" text-anchor="middle" fill="$dim" font-size="13">one gate</text>
<path d="M376 108V140" stroke="$line" stroke-width="1.5"/><path d="M370 134l6 8 6-8" fill="none" stroke="$line" stroke-width="1.5"/>
<text x="376" y="162" text-anchor="middle" fill="$ink">the tool runs: these arguments, at most once without a person's word</text>
<path d="M30 188H722" stroke="$line"/>
$steps
<path d="M244 229H402" stroke="$line" stroke-width="1.5" stroke-dasharray="2 6" stroke-linecap="round"/>
<text x="323" y="218" text-anchor="middle" fill="$dim" font-size="13">the process may end;</text>
<text x="323" y="250" text-anchor="middle" fill="$dim" font-size="13">seconds or weeks go by</text>
<text x="30" y="280" fill="$dim">A run is a log. Pausing, saving, deciding and resuming are ways of appending to it.</text>
</svg>
"""  # noqa: E501 - lines of SVG, one element each


def picture(theme: dict[str, str]) -> str:
    """The picture in one theme's colours."""
    keys = {
        "left": Template(KEY).substitute(place="translate(252 58)", colour=theme["a"]),
        "right": Template(KEY).substitute(place="translate(500 58) scale(-1 1)", colour=theme["b"]),
    }
    steps = "\n".join(
        Template(STEP).substitute(x=x, middle=x + 48, word=word, colour=theme[who], box=theme["box"])
        for x, word, who in STEPS
    )
    return Template(PICTURE).substitute(theme, **keys, steps=steps)


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    return {f"idea-{name}.svg": picture(theme) for name, theme in THEMES.items()}
