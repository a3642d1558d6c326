"""BR Codes of any merchant and any amount, parsed by the library starkbank-brcode."""

import re
from contextlib import suppress
from typing import Any

from brcode.utils.brcodeId import jsonFromBrcode
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.money import PIX_CENTS_MAX, parse_amount
from domain.pix.br_code import ascii_fold, dynamic_br_code
from tests.support.br_code_reader import parse_br_code

SAME_EVERY_RUN: Any = {"derandomize": True, "deadline": None, "database": None}

locations = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-._~/", min_size=1, max_size=77)
amounts = st.integers(1, PIX_CENTS_MAX)
# Real names first, then whatever a form accepts: other scripts, emoji, control characters, marks, empty text.
names = st.one_of(
    st.text("ABCabc çãõáéíóúâêôàüÇÃÕÁÉÍÓÚÂÊÔ&-.'ºª", max_size=60),
    st.text(max_size=60),
)


@settings(max_examples=600, **SAME_EVERY_RUN)
@given(location=locations, cents=amounts, name=names, city=names)
@example(location="x" * 77, cents=PIX_CENTS_MAX, name="ç" * 60, city="ã" * 60)
@example(location="x", cents=1, name="", city="")
def test_another_librarys_reader_finds_location_amount_and_constants_in_every_br_code(
    location: str, cents: int, name: str, city: str
) -> None:
    text = dynamic_br_code(location=location, amount_cents=cents, name=name, city=city)
    theirs: dict[str, Any] = jsonFromBrcode(text)
    assert list(theirs) == ["00", "01", "26", "52", "53", "54", "58", "59", "60", "62", "63"]
    assert theirs["26"] == {"00": "br.gov.bcb.pix", "25": location}
    assert theirs["62"] == {"05": "***"}
    assert (theirs["01"], theirs["52"], theirs["53"], theirs["58"]) == ("12", "0000", "986", "BR")
    assert parse_amount(theirs["54"], cents_max=PIX_CENTS_MAX) == cents
    assert re.fullmatch(r"[0-9]{1,10}\.[0-9]{2}", theirs["54"])
    # No published reader checks the lengths and characters of objects 59 and 60.
    assert re.fullmatch(r"[!-~]([ -~]{0,23}[!-~])?", theirs["59"])
    assert re.fullmatch(r"[!-~]([ -~]{0,13}[!-~])?", theirs["60"])
    ours = parse_br_code(text)
    assert {path: value for path, value in ours.items() if len(path) == 2 and path not in ("26", "62")} == {
        path: value for path, value in theirs.items() if isinstance(value, str)
    }
    assert (ours["26-25"], ours["62-05"]) == (location, "***")


@settings(max_examples=500, **SAME_EVERY_RUN)
@given(text=st.text(max_size=80), length_max=st.integers(1, 40))
def test_folded_text_is_within_its_length_printable_and_idempotent(text: str, length_max: int) -> None:
    folded = ascii_fold(text, length_max, otherwise="RECEBEDOR")
    assert 1 <= len(folded) <= length_max
    assert re.fullmatch(r"[!-~]+( [!-~]+)*", folded)
    assert ascii_fold(folded, length_max, otherwise="x") == folded


@settings(max_examples=200, **SAME_EVERY_RUN)
@given(text=st.one_of(st.text(max_size=600), st.from_regex(r"\A000201([0-9]{4}.{0,9}){0,9}6304[0-9A-F]{4}\Z")))
def test_parsing_arbitrary_text_raises_only_value_errors(text: str) -> None:
    with suppress(ValueError):
        parse_br_code(text)
