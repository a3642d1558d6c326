"""Interleaved 2 of 5, the symbology of boletos: the widths of the bars and spaces of a barcode (ISO/IEC 16390).

FEBRABAN prints 44 digits as 405 modules of 0.254 mm, 103 mm in all, with 5 mm of white on each side.
"""

import re
from itertools import chain
from typing import Final

QUIET_MODULES: Final = 10  # the least white space on each side

_DIGITS = re.compile(r"([0-9]{2})+")
_NARROW: Final = 1
_WIDE: Final = 3  # the largest ratio allowed, and the easiest to read
# Two of five elements are wide; the first digit of a pair gives the bars, the second the spaces between them.
_CODES: Final = ("nnwwn", "wnnnw", "nwnnw", "wwnnn", "nnwnw", "wnwnn", "nwwnn", "nnnww", "wnnwn", "nwnwn")
_PAIRS: Final = {
    f"{a}{b}": tuple(
        _WIDE if sign == "w" else _NARROW for pair in zip(_CODES[a], _CODES[b], strict=True) for sign in pair
    )
    for a in range(10)
    for b in range(10)
}
_START: Final = (_NARROW,) * 4
_STOP: Final = (_WIDE, _NARROW, _NARROW)


def bars(digits: str) -> tuple[list[tuple[int, int]], int]:
    """Returns the bars as (offset, width) in modules, counted from the edge of the first bar, and the total width.

    The number of `digits` must be even; no check digit is added.
    """
    assert _DIGITS.fullmatch(digits), "interleaved digits come in pairs"
    pairs = chain.from_iterable(_PAIRS[digits[at : at + 2]] for at in range(0, len(digits), 2))
    positions, at = [], 0
    for number, width in enumerate((*_START, *pairs, *_STOP)):  # a bar, a space, a bar...
        if number % 2 == 0:
            positions.append((at, width))
        at += width
    return positions, at
