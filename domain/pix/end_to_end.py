"""The endToEndId, which identifies one PIX at all banks (Manual de Padroes para Iniciacao do Pix, 6)."""

import re
import string
from datetime import UTC, datetime
from typing import Final

SANDBOX_ISPB: Final = "99999999"
"""The ISPB of the sandbox payers' bank; no institution has it."""
TAIL_BYTES: Final = 11
_ALPHABET: Final = string.ascii_letters + string.digits


def end_to_end_id(ispb: str, at: datetime, tail: str) -> str:
    """Returns the endToEndId of one PIX, 32 characters: E, ISPB of the payer's bank, UTC minute, a tail of 11.

    `at` is any aware instant; the SPI refuses ids with stale instants.
    """
    assert re.fullmatch(r"[0-9]{8}", ispb), "an ISPB has eight digits"
    assert at.tzinfo is not None, "an instant without a zone is no instant"
    assert re.fullmatch(r"[0-9A-Za-z]{11}", tail), "a tail has eleven letters or digits"
    return f"E{ispb}{at.astimezone(UTC):%Y%m%d%H%M}{tail}"


def sandbox_end_to_end_id(at: datetime, chance: bytes) -> str:
    """Returns the endToEndId of a sandbox payment, with a tail made of TAIL_BYTES of `chance`."""
    assert len(chance) == TAIL_BYTES
    return end_to_end_id(SANDBOX_ISPB, at, "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in chance))
