"""Reads the bank's callbacks into hints: from what identifies a hint to the txid or boleto number to ask the bank for.

States and amounts are not read: a callback by itself changes nothing (contract section 5).
"""

import re
from hashlib import sha256
from typing import Any, Final

import msgspec

from banks.banco_do_brasil.nosso_numero import NUMBER
from banks.banco_do_brasil.text import END_TO_END_ID, without_lone_surrogates
from banks.received import BOLETO_HINT

# Our txids are charge ids in hex. A boleto paid by PIX has a txid that begins with BOLETO, and another callback.
_TXID = re.compile(r"[0-9a-f]{32}")
_ITEMS_MAX: Final = 5_000
"""The largest body that the API accepts holds no more items."""


def pix_hints(body: bytes) -> dict[str, str]:
    """Read a callback `{"pix": [{"endToEndId", "txid", ...}]}` (or the bare array) into endToEndId -> txid. Leaves out
    unreadable items and items whose txid is not ours."""
    hints = {}
    for item in _items(body):
        txid = item.get("txid") if isinstance(item, dict) else None
        if not isinstance(txid, str) or _TXID.fullmatch(txid.strip()) is None:
            continue
        about = item.get("endToEndId")
        known = isinstance(about, str) and END_TO_END_ID.fullmatch(about)
        # Without a readable endToEndId the hint is about the charge as a whole.
        hints[about if known else f"txid:{txid.strip()}"] = txid.strip()
    return hints


def boleto_hints(body: bytes) -> dict[str, str]:
    """Read a callback of BAIXA OPERACIONAL, an array `[{"id": boleto's number, ...}]` or one of its items, whose keys
    may end in a blank, into `boleto:<number>:<digest of the item>` -> number.

    A repeated item gives the same hint; another payment, or a payment called off, gives another hint.
    """
    hints = {}
    for item in _items(body):
        number = {key.strip(): value for key, value in item.items()}.get("id") if isinstance(item, dict) else None
        if not isinstance(number, str) or NUMBER.fullmatch(number.strip()) is None:
            continue
        mark = sha256(msgspec.json.encode(item, order="deterministic")).hexdigest()[:32]
        hints[f"{BOLETO_HINT}{number.strip()}:{mark}"] = number.strip()
    return hints


def _items(body: bytes) -> list[Any]:
    try:
        said = msgspec.json.decode(without_lone_surrogates(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    if isinstance(said, dict):
        said = said.get("pix") or [said]
    return said[:_ITEMS_MAX] if isinstance(said, list) else []
