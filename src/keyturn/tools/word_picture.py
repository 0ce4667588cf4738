"""Draw words as a picture: for results that can only be pictures, read by models that look at them.

Black on white, in letters of five by seven dots. The text stands in the file as well (a PNG `iTXt` chunk), so that it
can be read back to the letter. Nothing here knows what the words are about.
"""

from __future__ import annotations

import base64
import struct
import textwrap
import zlib

PNG = "data:image/png;base64,"

_KEY = b"Description\0\0\0\0\0"
_COLUMNS, _ROWS = 64, 40  # of letters: the picture's width, and how high it may become
_MOST = 2 * _COLUMNS * _ROWS  # characters: what is longer has no room, unless it is blanks
_SCALE = 2
_WIDE = 6
_HIGH = 10
_EDGE = 16

# The printable ASCII characters from the space on: five columns each, a column's lowest bit is its top dot. The last
# one, an empty box, stands for every other character.
_DOTS = bytes.fromhex(
    "0000000000 00005f0000 0007000700 147f147f14 242a7f2a12 2313086462 3649562050 0000070300 001c224100 0041221c00"
    "14083e0814 08083e0808 0050300000 0808080808 0060600000 2010080402 3e5149453e 00427f4000 4261514946 2141494d33"
    "1814127f10 2745454539 3c4a494930 0171090503 3649494936 064949291e 0036360000 0056360000 0814224100 1414141414"
    "0041221408 0201510906 324979413e 7e1111117e 7f49494936 3e41414122 7f4141221c 7f49494941 7f09090901 3e4149497a"
    "7f0808087f 00417f4100 2040413f01 7f08142241 7f40404040 7f020c027f 7f0408107f 3e4141413e 7f09090906 3e4151215e"
    "7f09192946 4649494931 01017f0101 3f4040403f 1f2040201f 3f4038403f 6314081463 0708700807 6151494543 007f414100"
    "0204081020 0041417f00 0402010204 4040404040 0001020400 2054545478 7f48444438 3844444420 384444487f 3854545418"
    "087e090102 0c5252523e 7f08040478 00447d4000 2040443d00 7f10284400 00417f4000 7c04180478 7c08040478 3844444438"
    "7c14141408 081414187c 7c08040408 4854545420 043f444020 3c4040207c 1c2040201c 3c4030403c 4428102844 0c5050503c"
    "4464544c44 0008364100 00007f0000 0041360800 0804081008 7f4141417f"
)


def drawn(text: str) -> str:
    """Return a data URL of a picture in which the text is written.

    >>> drawn("Not today.").startswith("data:image/png;base64,iVBOR")
    True
    """
    lines = [row for line in text[:_MOST].splitlines() for row in textwrap.wrap(line, _COLUMNS) or [""]] or [""]
    if len(lines) > _ROWS or len(text) > _MOST:
        lines = [*lines[: _ROWS - 1], "(cut here)"]
    width = (_COLUMNS * _WIDE + _EDGE) * _SCALE
    blank = bytes(_EDGE // 2)
    dots = [bytes(width // _SCALE)] * (_EDGE // 2)
    for line in lines:
        dots += [(blank + _row(line, bit)).ljust(width // _SCALE, b"\0") for bit in range(_HIGH)]
    dots += [bytes(width // _SCALE)] * (_EDGE // 2)
    # One byte a pixel, 255 is white; each row begins with the number of its filter, which is none.
    pixels = b"".join((b"\0" + bytes(0 if dot else 255 for dot in row for _ in range(_SCALE))) * _SCALE for row in dots)
    header = struct.pack(">IIBBBBB", width, len(dots) * _SCALE, 8, 0, 0, 0, 0)
    words = _KEY + text.encode("utf-8", "replace")
    chunks = (b"IHDR", header), (b"iTXt", words), (b"IDAT", zlib.compress(pixels)), (b"IEND", b"")
    return PNG + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)).decode()


def written(url: str) -> str | None:
    """Return the text of a picture that `drawn` made, None for every other one.

    >>> written(drawn("Not today."))
    'Not today.'
    """
    if not url.startswith(PNG):
        return None
    before, found, rest = base64.b64decode(url[len(PNG) :]).partition(b"iTXt" + _KEY)
    length = int.from_bytes(before[-4:]) - len(_KEY)  # it stands before the chunk's name
    return rest[:length].decode() if found else None


def _row(line: str, bit: int) -> bytes:
    """Return one row of dots of a line, a byte for each."""
    made = bytearray()
    for char in line:
        place = ord(char) - 32 if " " <= char <= "~" else 95
        made += bytes(column >> bit & 1 for column in _DOTS[place * 5 : place * 5 + 5]) + b"\0"
    return bytes(made)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
