"""Replace one text by another inside a third: exactly once, or everywhere where requested.

Pure: nothing here knows files or tools.
"""

from __future__ import annotations

from .problems import EditRefused, FileTooLarge


def replaced(text: str, old: str, new: str, every: bool = False, *, most: int | None = None) -> tuple[str, int]:
    """Return the text with `old` replaced, and how often; raise `EditRefused` where it is ambiguous.

    Where the text has CRLF newlines, LF in `old` and `new` stands for them. A result of more than `most` bytes is
    refused before it is made.

    >>> replaced("a = 1\\nb = 2\\n", "b = 2", "b = 3")
    ('a = 1\\nb = 3\\n', 1)
    >>> replaced("a = 1\\nb = 1\\n", "1", "2", every=True)
    ('a = 2\\nb = 2\\n', 2)
    """
    why = edit_fault(old, new)
    if why is not None:
        raise EditRefused(why)
    whole = text.count("\n") == text.count("\r\n") > 0
    if whole or (old not in text and "\r\n" in text):
        old, new = _crlf(old), _crlf(new)
        if old == new:
            raise EditRefused("Only line breaks differ between the two, and the file's own are kept.")
    first = text.find(old)
    if first < 0:
        raise EditRefused(_not_there(text, old))
    # Overlapping places are several, though `count` sees one.
    if not every and text.find(old, first + 1) >= 0:
        raise EditRefused(
            f"The text to replace is in several places: lines {_lines(text, old)}. Give more of the lines around "
            "the one that is meant, or set replace_all."
        )
    count = text.count(old)
    _check_size(text, count * (len(new.encode()) - len(old.encode())), most)
    return text.replace(old, new), count


def _check_size(text: str, growth: int, most: int | None) -> None:
    """Refuse an edit whose result would be too large: repeated often enough, a short text fills the memory."""
    size = len(text.encode()) + growth
    if most is not None and size > most:
        raise FileTooLarge(f"The file would have {size} bytes; {most} are allowed.")


def edit_fault(old: str, new: str) -> str | None:
    """Return what is wrong with an edit whatever the text is."""
    if not old:
        return "The text to replace is empty. To write a whole file use write_file."
    return "The text to replace and the new one are the same." if old == new else None


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _not_there(text: str, old: str) -> str:
    if " ".join(old.split()) in " ".join(text.split()):
        return "The text to replace is not in the file: only its spaces or line breaks differ. Copy it exactly."
    return "The text to replace is not in the file. Read the file again and copy it exactly."


def _lines(text: str, old: str, most: int = 10) -> str:
    numbers: list[str] = []
    place = text.find(old)
    line, counted = 1, 0
    while place >= 0 and len(numbers) < most:
        line += text.count("\n", counted, place)
        counted = place
        numbers.append(str(line))
        place = text.find(old, place + 1)
    return ", ".join(dict.fromkeys(numbers)) + (", ..." if place >= 0 else "")
