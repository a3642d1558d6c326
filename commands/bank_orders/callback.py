"""Keep what the bank's callbacks say, as hints: they move nothing, a worker asks the bank (contract section 5)."""

import re
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

import sql
from sql import Connection

# Ours are charge ids in hex. Boletos paid by PIX carry a txid that begins with BOLETO and come another way.
_TXID = re.compile(r"[0-9a-f]{32}")
_BOLETO_NUMBER = re.compile(r"000[1-9][0-9]{16}")
_END_TO_END_ID = re.compile(r"[0-9A-Za-z]{1,64}")
_ITEMS_MAX = 5_000  # more do not fit into the largest body the door takes


class _Stored(Struct, frozen=True):
    about: str


store = sql.many("bank_hint.store", _Stored)


async def store_hints(conn: Connection, body: bytes, now: datetime) -> int:
    """Keep every item of a callback `{"pix": [{"endToEndId", "txid", ...}]}` (or the bare array); answers how many
    are new. Whatever cannot be read, or is about a txid that is none of ours, is passed over."""
    hints = {}
    for item in _items(body)[:_ITEMS_MAX]:
        txid = item.get("txid") if isinstance(item, dict) else None
        if not isinstance(txid, str) or _TXID.fullmatch(txid.strip()) is None:
            continue
        about = item.get("endToEndId")
        known = isinstance(about, str) and _END_TO_END_ID.fullmatch(about)
        # Without a readable endToEndId the hint is about the charge as a whole.
        hints[about if known else f"txid:{txid.strip()}"] = txid.strip()
    if not hints:
        return 0
    return len(await store(conn, abouts=list(hints), txids=list(hints.values()), now=now))


async def store_boleto_hints(conn: Connection, body: bytes, now: datetime) -> int:
    """Keep every item of BAIXA OPERACIONAL, an array `[{"id": boleto's number, ...}]`; answers how many are new.

    What it says of states and amounts is not read (their unit is not even agreed on): the boleto is asked for. The same
    item told again is the same hint; a payment called off, or another one, is another.
    """
    hints = {}
    for item in _items(body)[:_ITEMS_MAX]:
        number = item.get("id") if isinstance(item, dict) else None
        if not isinstance(number, str) or _BOLETO_NUMBER.fullmatch(number.strip()) is None:
            continue
        mark = sha256(msgspec.json.encode(item, order="deterministic")).hexdigest()[:32]
        hints[f"boleto:{number.strip()}:{mark}"] = number.strip()
    if not hints:
        return 0
    return len(await store(conn, abouts=list(hints), txids=list(hints.values()), now=now))


def _items(body: bytes) -> list[Any]:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    if isinstance(said, dict):
        said = said.get("pix")
    return said if isinstance(said, list) else []
