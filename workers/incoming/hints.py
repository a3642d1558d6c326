"""Check what the bank's callbacks say: ask the bank, and book what it confirms. A hint itself moves no money."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog
from msgspec import Struct

import sql
from banks.protocol import CobState, NotFound, Unknown
from banks.received import BOLETO_HINT, ReceivedPix
from runtime.batching import Batcher
from runtime.postgres import DB_UNAVAILABLE, session
from workers.concurrency import run_batched
from workers.context import Context
from workers.incoming.boleto_payments import BookingResult, look_at_boletos
from workers.incoming.pix_payments import book_pix, charge_at_bank

ATTEMPTS_MAX = 10
"""How often the bank is asked about a hint it knows nothing of, over some ten minutes, until the hint is unfounded."""

HINTS_KEPT: Final = timedelta(days=7)
"""How long a hint is followed without a readable answer: the reconciler asks for as many days each night."""

_LEASE = timedelta(seconds=60)
_CALL_S = 45.0  # below the lease
_BOOKED_MAX = 100
_SETTLED_MAX = 200
_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0)
_UNKNOWN_S = 5.0
_UNKNOWN_SHARE: Final = 0.1  # of the time since the hint came
_UNKNOWN_S_MAX = 300.0
_BOLETO_LOOKS = 4

_log = structlog.get_logger()


class Hint(Struct, frozen=True, gc=False):
    hint_id: int
    bank: str
    about: str
    txid: str
    received_at: datetime
    attempts: int
    request_id: str | None
    """The request id of the callback."""


class _ReceivedForCharge(NamedTuple):
    """The PIX that a bank says it received for one charge."""

    bank: str
    received: list[ReceivedPix]
    request_id: str | None


class _Verdict(Struct, frozen=True, gc=False):
    hint_id: int
    state: str
    attempts: int
    due_at: datetime


claim = sql.many("bank_hint.claim", Hint)
settle = sql.run("bank_hint.settle")


async def drain_pix_hints(context: Context) -> int:
    """Check what is due, for as long as hints come; returns how many were taken up. A slow answer holds up no other."""
    return await _drain(context, of_boleto=False)


async def drain_boleto_hints(context: Context) -> int:
    return await _drain(context, of_boleto=True)


async def _drain(context: Context, *, of_boleto: bool) -> int:
    pace, banks = context.settings.pace, list(context.banks.production)

    async def claim_some(limit: int) -> list[Hint]:
        now = context.now()
        async with session(context.pool) as conn:
            return await claim(conn, of_boleto=of_boleto, banks=banks, now=now, limit=limit, lease_until=now + _LEASE)

    checks = _HintChecks(context)
    return await run_batched(
        claim_some,
        begin=checks.begin,
        at_once=pace.bank_hint_calls,
        batch_max=pace.orders_claimed,
        stopping=context.stopping,
    )


class _HintChecks:
    """Checks under way. Findings of the same moment are booked together, and their verdicts stored together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._book_batcher: Batcher[_ReceivedForCharge, None] = Batcher(self._book, lanes=2, batch_max=_BOOKED_MAX)
        self._settle_batcher: Batcher[list[_Verdict], None] = Batcher(self._settle, lanes=1, batch_max=_SETTLED_MAX)

    def begin(self, hints: Sequence[Hint]) -> list[Coroutine[Any, Any, None]]:
        """One check for each charge or boleto that the hints are about."""
        by_subject: dict[tuple[str, str], list[Hint]] = {}
        for hint in hints:
            by_subject.setdefault((hint.bank, hint.txid), []).append(hint)
        return [self._check(bank, about, subject_hints) for (bank, about), subject_hints in by_subject.items()]

    async def _check(self, bank: str, about: str, hints: list[Hint]) -> None:
        """Raises nothing: a check that failed here is due again when its lease has ended.

        Its log lines name the callback; of several about one charge, the first that has an id."""
        request_id = _first_request_id(hints)
        with (
            structlog.contextvars.bound_contextvars(**({} if request_id is None else {"request_id": request_id})),
            self._span(bank, hints[0], request_id),
        ):
            await self._ask_and_settle(bank, about, hints)

    async def _ask_and_settle(self, bank: str, about: str, hints: list[Hint]) -> None:
        try:
            began_at = self._context.now()
            state = await self._ask(bank, about, hints)
            _log.info(
                "bank_hint_asked",
                txid=about,
                attempts=hints[0].attempts,
                duration_ms=round((self._context.now() - began_at).total_seconds() * 1000),
            )
            verdicts = [_verdict(hint, state, self._context.now()) for hint in hints]
            await self._settle_batcher.submit(verdicts)
        except DB_UNAVAILABLE as error:
            _log.warning("bank_hint_waits", error=type(error).__name__)
        except Exception:
            _log.exception("bank_hint_failed_here", txid=about)

    def _span(self, bank: str, hint: Hint, request_id: str | None) -> AbstractContextManager[object]:
        if self._context.traces is None:
            return nullcontext()
        attributes: dict[str, str | int | bool] = {"quita.bank": bank, "quita.attempt": hint.attempts}
        own = f"{bank}/{hint.about}"
        return self._context.traces.span("bank hint", request_id=request_id, own=own, attributes=attributes)

    async def _ask(self, bank: str, about: str, hints: list[Hint]) -> CobState | NotFound | Unknown | BookingResult:
        """The bank's answer. What it confirms is booked."""
        if _is_boleto(hints[0]):
            # A boleto paid twice has two callbacks: wait some seconds for the other one.
            patient = {about} if all(hint.attempts < _BOLETO_LOOKS for hint in hints) else set()
            request_ids = {about: _first_request_id(hints)}
            return (await look_at_boletos(self._context, bank, [about], patient=patient, request_ids=request_ids))[
                about
            ]
        try:
            async with asyncio.timeout(_CALL_S):
                state = await charge_at_bank(self._context.banks.production[bank], about)
        except TimeoutError:
            return Unknown("no answer in time")
        if isinstance(state, CobState) and state.received:
            await self._book_batcher.submit(_ReceivedForCharge(bank, state.received, _first_request_id(hints)))
        return state

    async def _book(self, findings: Sequence[_ReceivedForCharge]) -> list[None]:
        for bank in sorted({each.bank for each in findings}):
            of_bank = [each for each in findings if each.bank == bank]
            request_ids = {pix.end_to_end_id: each.request_id for each in of_bank for pix in each.received}
            await book_pix(
                self._context, bank, [pix for each in of_bank for pix in each.received], request_ids=request_ids
            )
        return [None] * len(findings)

    async def _settle(self, verdicts: Sequence[list[_Verdict]]) -> list[None]:
        async with session(self._context.pool) as conn:
            all_verdicts = [verdict for check_verdicts in verdicts for verdict in check_verdicts]
            await settle(conn, verdicts=all_verdicts, boletos=BOLETO_HINT, now=self._context.now())
        return [None] * len(verdicts)


def _first_request_id(hints: Sequence[Hint]) -> str | None:
    return next((hint.request_id for hint in hints if hint.request_id is not None), None)


def _is_boleto(hint: Hint) -> bool:
    return hint.about.startswith(BOLETO_HINT)


def _verdict(hint: Hint, state: CobState | NotFound | Unknown | BookingResult, now: datetime) -> _Verdict:
    if isinstance(state, Unknown) or state is BookingResult.UNKNOWN:
        age_s = (now - hint.received_at).total_seconds()
        if age_s > HINTS_KEPT.total_seconds():
            _log.warning("bank_hint_given_up", txid=hint.txid)
            return _Verdict(hint.hint_id, "unfounded", hint.attempts, now)
        # The bank's silence says nothing against the hint, but the bank is asked ever less often.
        wait_s = min(max(_UNKNOWN_S, age_s * _UNKNOWN_SHARE), _UNKNOWN_S_MAX)
        return _Verdict(hint.hint_id, "waiting", hint.attempts - 1, now + timedelta(seconds=wait_s))
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
    # A boleto shows a total. When that holds nothing new, the hint's payment may be in it already, or not yet.
    return state is BookingResult.BOOKED or (state is BookingResult.NOTHING_NEW and hint.attempts >= _BOLETO_LOOKS)
