"""Parse a docstring: what a function does, and what its parameters mean.

Google, NumPy and Sphinx styles are read, and the style is found where it is not given. Nothing here
looks at signatures or builds schemas, and no docstring is an error: one that cannot be read is all
description.
"""

from __future__ import annotations

import inspect
import re
from typing import Literal

import msgspec

DocstringStyle = Literal["google", "numpy", "sphinx"]

_SECTIONS = (
    "Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Attributes|Returns?|Yields?|"
    "Raises|Except|Exceptions|Warns|Examples?|Methods|See Also|References"
)
# In the order in which a tie is decided: the rarer a style's marks are in plain prose, the earlier it comes.
_MARKS: dict[DocstringStyle, re.Pattern[str]] = {
    "sphinx": re.compile(r"^[ \t]*:(?:param|parameter|arg|argument|type|key|keyword|returns?|rtype|raises?)\b", re.M),
    "numpy": re.compile(rf"^[ \t]*(?:{_SECTIONS})[ \t]*\n[ \t]*-{{3,}}[ \t]*$", re.M),
    "google": re.compile(rf"^[ \t]*(?:{_SECTIONS}):[ \t]*$", re.M),
}


class Docstring(msgspec.Struct, frozen=True):
    """Holds a parsed docstring: summary and body without any section, and a text for each documented parameter."""

    description: str = ""
    parameters: dict[str, str] = {}


def read_docstring(text: str | None, style: DocstringStyle | None = None) -> Docstring:
    """Parse a docstring in the style given, or in the one it seems to be written in.

    >>> read_docstring("Pay a bill.\\n\\nArgs:\\n    amount: In cents.")
    Docstring(description='Pay a bill.', parameters={'amount': 'In cents.'})
    """
    plain = inspect.cleandoc(text).strip() if text else ""
    chosen = style or _style_of(plain)
    if chosen is None or not plain:
        return Docstring(plain)

    import docstring_parser  # loaded for the first tool that has a docstring with sections, never for `import keyturn`

    formats = {
        "google": docstring_parser.DocstringStyle.GOOGLE,
        "numpy": docstring_parser.DocstringStyle.NUMPYDOC,
        "sphinx": docstring_parser.DocstringStyle.REST,
    }
    try:
        # The parser overlooks a section on the first line, so it gets a summary of ours, which is then left out.
        parsed = docstring_parser.parse(f"-\n\n{plain}", style=formats[chosen])
    except docstring_parser.ParseError:
        return Docstring(plain)
    parameters: dict[str, str] = {}
    for parameter in parsed.params:
        for name in parameter.arg_name.split(","):
            parameters.setdefault(_bare(name), (parameter.description or "").strip())
    return Docstring((parsed.long_description or "").strip(), {name: said for name, said in parameters.items() if said})


def _style_of(text: str) -> DocstringStyle | None:
    best: DocstringStyle | None = None
    most = 0
    for style, marks in _MARKS.items():
        if (count := len(marks.findall(text))) > most:
            best, most = style, count
    return best


def _bare(name: str) -> str:
    """Return a parameter's name as the signature has it: docstrings write `*args`, and some write `\\*args`."""
    return name.strip().lstrip("\\*")
