"""Interleaved 2 of 5, the symbology of boletos: how wide the bars and spaces of a barcode are (ISO/IEC 16390).

FEBRABAN prints 44 digits as 405 modules of 0.254 mm, 103 mm in all, with 5 mm of white on each side.
"""

import re
from itertools import chain
from typing import Final

QUIET_MODULES: Final = 10  # white on each side, at the least

_DIGITS = re.compile(r"([0-9]{2})+")
_NARROW: Final = 1
_WIDE: Final = 3  # the widest ratio that is allowed, and the easiest to read
# Of five elements two are wide; the first digit of a pair is the bars, the second the spaces between them.
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
    """The bars as (where it begins, how wide it is) in modules from the first one's edge, and how wide all are.

    `digits` come in pairs, and no check digit is added to them.
    """
    assert _DIGITS.fullmatch(digits), "interleaved digits come in pairs"
    pairs = chain.from_iterable(_PAIRS[digits[at : at + 2]] for at in range(0, len(digits), 2))
    found, at = [], 0
    for number, width in enumerate((*_START, *pairs, *_STOP)):  # a bar, a space, a bar...
        if number % 2 == 0:
            found.append((at, width))
        at += width
    return found, at
