"""QR symbols of any BR Code: a decoder reads exactly the charge's BR Code."""

from typing import Any

import segno
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.money import PIX_CENTS_MAX
from domain.pix.br_code import dynamic_br_code
from domain.pix.qr import MASK, png, symbol
from tests.support.code_reader import qr_text

SAME_EVERY_RUN: Any = {"derandomize": True, "deadline": None, "database": None}

br_codes = st.builds(
    dynamic_br_code,
    location=st.text("abcdef0123456789./", min_size=1, max_size=77),
    amount_cents=st.integers(1, PIX_CENTS_MAX),
    name=st.text(max_size=40),
    city=st.text(max_size=30),
)


@settings(max_examples=300, **SAME_EVERY_RUN)
@given(text=br_codes)
def test_the_image_decodes_to_exactly_the_br_code(text: str) -> None:
    assert qr_text(png(text)) == text


@settings(max_examples=200, **SAME_EVERY_RUN)
@given(payload=st.binary(min_size=1, max_size=512))
def test_the_symbol_of_any_bytes_equals_segnos_module_by_module(payload: bytes) -> None:
    code = segno.make_qr(payload, error="m", boost_error=False, mode="byte", mask=MASK)
    assert symbol(payload).rows == tuple(bytes(row) for row in code.matrix)
