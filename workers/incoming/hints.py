"""Check what the bank's callbacks say: ask the bank, and book what it confirms. A hint itself moves nothing."""

import asyncio
from datetime import datetime, timedelta
from typing import Final

import structlog
from msgspec import Struct

import sql
from banks.protocol import CobState, NotFound, Unknown
from banks.received import BOLETO_HINT
from runtime.postgres import session
from workers.concurrency import ask_all
from workers.context import Context
from workers.incoming.boleto_payments import BookingResult, look_at_boletos
from workers.incoming.pix_payments import book_pix

BATCH = 100
ATTEMPTS_MAX = 10
"""A hint the bank knows nothing of is asked about this often, over some ten minutes, and then unfounded."""

_LEASE = timedelta(seconds=60)
_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0)
_UNKNOWN_S = 5.0
_BOLETO_LOOKS = 4

_log = structlog.get_logger()


class Hint(Struct, frozen=True, gc=False):
    hint_id: int
    bank: str
    about: str
    txid: str
    attempts: int


class _Verdict(Struct, frozen=True, gc=False):
    hint_id: int
    state: str
    attempts: int
    due_at: datetime


claim = sql.many("bank_hint.claim", Hint)
settle = sql.run("bank_hint.settle")


async def drain_hints(context: Context) -> int:
    """Check what is due; answers how many hints were taken up."""
    now = context.now()
    async with session(context.pool) as conn:
        hints = await claim(conn, banks=list(context.banks.production), now=now, limit=BATCH, lease_until=now + _LEASE)
    by_bank: dict[str, list[Hint]] = {}
    for hint in hints:
        by_bank.setdefault(hint.bank, []).append(hint)
    await asyncio.gather(*(_check(context, bank, of_bank) for bank, of_bank in by_bank.items()))
    return len(hints)


async def _check(context: Context, bank: str, hints: list[Hint]) -> None:
    boletos = {hint.txid for hint in hints if _is_boleto(hint)}
    # A boleto paid twice has two callbacks: for some seconds the other one is waited for.
    patient = boletos - {hint.txid for hint in hints if hint.attempts >= _BOLETO_LOOKS}
    get_cob = context.banks.production[bank].pix.get_cob
    seen, found = await asyncio.gather(
        look_at_boletos(context, bank, sorted(boletos), patient=patient),
        ask_all(get_cob, sorted({hint.txid for hint in hints if not _is_boleto(hint)})),
    )
    received = [pix for state in found.values() if isinstance(state, CobState) for pix in state.received]
    await book_pix(context, received)
    states: dict[str, CobState | NotFound | Unknown | BookingResult] = {**found, **seen}
    verdicts = [_verdict(hint, states[hint.txid], context.now()) for hint in hints]
    async with session(context.pool) as conn:
        await settle(conn, verdicts=verdicts)


def _is_boleto(hint: Hint) -> bool:
    return hint.about.startswith(BOLETO_HINT)


def _verdict(hint: Hint, state: CobState | NotFound | Unknown | BookingResult, now: datetime) -> _Verdict:
    if isinstance(state, Unknown) or state is BookingResult.UNKNOWN:
        # The bank's silence says nothing against the hint.
        return _Verdict(hint.hint_id, "waiting", hint.attempts - 1, now + timedelta(seconds=_UNKNOWN_S))
    if _confirms(state, hint):
        verdict = "confirmed"
    elif hint.attempts >= ATTEMPTS_MAX:
        verdict = "unfounded"
        _log.warning("bank_hint_unfounded", txid=hint.txid)
    else:
        verdict = "waiting"
    wait_s = _BACKOFF_S[min(hint.attempts, len(_BACKOFF_S)) - 1]
    return _Verdict(hint.hint_id, verdict, hint.attempts, now + timedelta(seconds=wait_s))


def _confirms(state: CobState | NotFound | BookingResult, hint: Hint) -> bool:
    if isinstance(state, CobState):
        return any(hint.about in (pix.end_to_end_id, f"txid:{pix.txid}") for pix in state.received)
    # A boleto shows a total: when that holds nothing new, what the hint is about may be in it already, or not yet.
    return state is BookingResult.BOOKED or (state is BookingResult.NOTHING_NEW and hint.attempts >= _BOLETO_LOOKS)
