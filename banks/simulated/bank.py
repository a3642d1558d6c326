"""The simulated bank, with tables of its own in PostgreSQL (simulated_*).

Workers call it directly for sandbox mode; `python -m banks.simulated` serves the tables of the production world as API
Pix over HTTP. Each call is one statement in a transaction of its own, so our transactions never include the bank's. The
one exception is the cob of a test charge, written by the statement that creates the charge (charge.sql).
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

import sql
from banks.banco_do_brasil.pix_list import number_of_txid
from banks.lists import BankPage, numbered_page, unreadable_item
from banks.protocol import (
    DESCRIPTION_CHARACTERS_MAX,
    Cob,
    CobState,
    Done,
    Location,
    NotFound,
    Rejected,
)
from banks.received import PixReturn, ReceivedPix
from banks.simulated.boletos import PAYER_DOCUMENT, PAYER_NAME, SimulatedBoletos
from banks.simulated.cobvs import REMOVED, CobPayer, SimulatedCobvs, add_locations, sealed_payer
from banks.simulated.returns import SimulatedReturns
from domain.boleto.terms import AmountDue, PaymentTerms, amount_due
from domain.instants import day_of
from domain.sandbox_clock import on_clock
from runtime.ids import ordered_token
from runtime.postgres import Pool, session
from runtime.seal import SIMULATED_COB_PAYER, Seal
from sql import Connection

SANDBOX: Final = "sandbox"
PRODUCTION: Final = "production"
COBS_MAX = 500
LOCATIONS_MAX = 5_000
PAGE = 100
"""Received PIX per page, as at Banco do Brasil."""

_PIX_OF_COB_MAX = 100

NOT_ACTIVE: Final = Rejected("CobOperacaoInvalida", "A cobrança já não está ATIVA.")
# By the result of the statement put_cobs.
_ANSWERS: Final[dict[str, Done[None] | Rejected]] = {
    "put": Done(None),
    "no_location": Rejected("CobOperacaoInvalida", "A location informada não existe."),
    "location_taken": Rejected("CobOperacaoInvalida", "A location informada já é de outra cobrança."),
    "not_active": NOT_ACTIVE,
}


class BookedCob(Struct, frozen=True):
    """A stored cob."""

    txid: str
    status: str
    revisao: int
    amount_cents: int
    pix_key: str
    description: str | None
    payer_sealed: bytes | None
    created_at: datetime
    expires_in_s: int
    location_id: int
    location: str
    due_on: date | None
    """For a cobv only."""
    terms: bytes | None

    @property
    def ends_at(self) -> datetime:
        return self.created_at + timedelta(seconds=self.expires_in_s)

    @property
    def agreed(self) -> PaymentTerms | None:
        return None if self.terms is None else _read_terms(self.terms)

    def due(self, at: datetime) -> AmountDue:
        """The amount that a payer's bank collects at that moment."""
        on = day_of(at)
        return amount_due(self.agreed, amount_cents=self.amount_cents, due=self.due_on or on, on=on)


class BookedPix(Struct, frozen=True):
    end_to_end_id: str
    txid: str | None
    amount_cents: int
    pix_key: str | None
    paid_at: datetime
    payer_name: str
    payer_document: str
    garbled: bool
    """Listed in an unreadable form, for tests."""
    interest_cents: int
    fine_cents: int
    discount_cents: int
    """For a cobv: parts of the amount."""


class Untold(BookedPix, frozen=True):
    """A PIX whose callback is due, and its address."""

    url: str


class Callback(Struct, frozen=True):
    pix_key: str
    url: str
    created_at: datetime


class PayerPix(Struct, frozen=True, kw_only=True):
    """A PIX that a payer's bank sends."""

    end_to_end_id: str
    txid: str | None
    amount_cents: int
    paid_at: datetime
    garbled: bool = False
    interest_cents: int = 0
    fine_cents: int = 0
    discount_cents: int = 0


class _Put(Struct, frozen=True):
    txid: str
    became: str


class PlayedFault(Struct, frozen=True):
    fault: str
    delay_ms: int | None = None
    """For `slow`: the delay of each answer; None for the default."""


put_cobs = sql.many("simulated_bank.put_cobs", _Put)
find_cobs = sql.many("simulated_bank.cobs", BookedCob)
find_cob_at = sql.maybe("simulated_bank.cob_at", BookedCob)
remove = sql.maybe("simulated_bank.remove_cob", str)
revise = sql.maybe("simulated_bank.revise_cob", str)
receive = sql.run("simulated_bank.receive")
conclude = sql.run("simulated_bank.conclude")
find_pix_of_cob = sql.many("simulated_bank.pix_of_cob", BookedPix)
find_pix = sql.maybe("simulated_bank.pix", BookedPix)
count_received = sql.one("simulated_bank.count_received", int)
find_received = sql.many("simulated_bank.received", BookedPix)
register = sql.run("simulated_bank.register_callback")
find_callback = sql.maybe("simulated_bank.callback", Callback)
claim_untold = sql.many("simulated_bank.claim_untold", Untold)
mark_told = sql.run("simulated_bank.told")
set_fault = sql.run("simulated_bank.set_fault")
find_fault = sql.maybe("simulated_bank.fault", PlayedFault)

_read_payer = msgspec.json.Decoder(CobPayer).decode
_read_terms = msgspec.json.Decoder(PaymentTerms).decode


class SimulatedBank:
    """The simulated bank's books in one world. `url` is where locations are served, with its scheme; the QR Code has it
    without the scheme, and payers' apps add https."""

    def __init__(self, pool: Pool, seal: Seal, *, world: str, url: str, now: Callable[[], datetime]) -> None:
        self._pool = pool
        self._seal = seal
        self.world = world
        self._url = url
        self._prefix = f"{url.partition('://')[2]}/pix/v2/"
        self.now = now
        self.cobvs = SimulatedCobvs(pool, seal, world=world, prefix=self._prefix, now=now, look=self.get_cob)
        self.transfers = SimulatedReturns(pool, world=world, now=now)
        self.boletos = SimulatedBoletos(pool, seal, world=world, url=url, now=now)

    @property
    def pix(self) -> "SimulatedBank":
        return self

    def ahead(self, ahead_s: int) -> "SimulatedBank":
        """Return this bank with its clock `ahead_s` seconds ahead, for an account whose sandbox clock is ahead."""
        if not ahead_s:
            return self
        return SimulatedBank(
            self._pool, self._seal, world=self.world, url=self._url, now=lambda: on_clock(self.now(), ahead_s)
        )

    async def put_cob(self, cob: Cob) -> Done[None] | Rejected:
        (became,) = await self.put_cobs([cob])
        return became

    async def put_cobs(self, cobs: Sequence[Cob]) -> list[Done[None] | Rejected]:
        """PUT up to COBS_MAX cobs at once; returns an answer for each, in order."""
        assert len(cobs) <= COBS_MAX
        async with session(self._pool) as conn:
            rows = await put_cobs(
                conn,
                world=self.world,
                cobs=cobs,
                descriptions=[(cob.description or "")[:DESCRIPTION_CHARACTERS_MAX] or None for cob in cobs],
                payers=[sealed_payer(self._seal, cob.payer_name, cob.payer_document, cob.txid) for cob in cobs],
            )
            await self.conclude(conn, [cob.txid for cob in cobs])
        became = {row.txid: row.became for row in rows}
        return [_ANSWERS[became[cob.txid]] for cob in cobs]

    async def get_cob(self, txid: str) -> CobState | NotFound:
        cob = await self.booked(txid)
        if cob is None:
            return NotFound()
        return CobState(status=cob.status, received=await self._received(await self.pix_of(txid)))

    async def remove_cob(self, txid: str) -> Done[None] | NotFound | Rejected:
        async with session(self._pool) as conn:
            if await remove(conn, world=self.world, txid=txid) is not None:
                return Done(None)
        cob = await self.booked(txid)
        if cob is None:
            return NotFound()
        return Done(None) if cob.status == REMOVED else NOT_ACTIVE

    async def revise_cob(self, txid: str, expires_at: datetime) -> Done[None] | NotFound | Rejected:
        cob = await self.booked(txid)
        if cob is None:
            return NotFound()
        return await self.revise(txid, max(int((expires_at - cob.created_at).total_seconds()), 1))

    async def revise(self, txid: str, lifetime_s: int) -> Done[None] | NotFound | Rejected:
        """Change a cob's expiracao, in seconds since its creation; only while it is ATIVA."""
        async with session(self._pool) as conn:
            if await revise(conn, world=self.world, txid=txid, expires_in_s=lifetime_s) is not None:
                return Done(None)
        return NotFound() if await self.booked(txid) is None else NOT_ACTIVE

    async def create_locations(self, count: int) -> Done[list[Location]]:
        tokens = [ordered_token() for _ in range(min(count, LOCATIONS_MAX))]
        async with session(self._pool) as conn:
            rows = await add_locations(conn, world=self.world, prefix=self._prefix, tokens=tokens, now=self.now())
        return Done([Location(row.location_id, row.location) for row in rows])

    async def received_page(
        self, since: datetime, until: datetime, after: str | None = None, *, returned: bool = False
    ) -> Done[BankPage[ReceivedPix]]:
        page = int(after or 0)
        rows, total = await self.pix_page(since, until, page=page, per_page=PAGE, returned=returned)
        pages = -(-total // PAGE)
        items = await self._received([row for row in rows if not row.garbled])
        unreadable = [unreadable_item(b"{}", row.end_to_end_id) for row in rows if row.garbled]
        return Done(numbered_page(items, unreadable, page=page, pages=pages))

    async def register_callback(self, pix_key: str, url: str) -> Done[None]:
        async with session(self._pool) as conn:
            await register(conn, world=self.world, pix_key=pix_key, url=url, now=self.now())
        return Done(None)

    # Beyond the port: payers, and the needs of the bank's HTTP API.

    async def receive(self, paid: Sequence[PayerPix], *, tell: bool) -> None:
        """Book PIX from payers, each endToEndId once. `tell`: call the receiver's callback."""
        now = self.now()
        async with session(self._pool) as conn:
            await receive(
                conn,
                world=self.world,
                paid=paid,
                payer_name=PAYER_NAME,
                payer_document=PAYER_DOCUMENT,
                tell_at=now if tell else None,
            )
            await self.conclude(conn, [each.txid for each in paid if each.txid is not None])

    async def conclude(self, conn: Connection, txids: Sequence[str]) -> None:
        """Conclude paid cobs in the sandbox, where a charge may be paid before its cob is registered; in production a
        payer reads the cob first."""
        if self.world == SANDBOX and txids:
            await conclude(conn, world=self.world, txids=txids)

    async def booked(self, txid: str) -> BookedCob | None:
        return (await self.booked_cobs([txid]))[0]

    async def booked_cobs(self, txids: Sequence[str]) -> list[BookedCob | None]:
        """Return the cobs in the order of `txids`."""
        async with session(self._pool) as conn:
            found = {cob.txid: cob for cob in await find_cobs(conn, world=self.world, txids=txids)}
        return [found.get(txid) for txid in txids]

    async def booked_at(self, token: str) -> BookedCob | None:
        """Return the cob at a location; None if there is no such location, or no cob at it yet."""
        async with session(self._pool) as conn:
            return await find_cob_at(conn, world=self.world, token=token)

    async def pix_of(self, txid: str) -> list[BookedPix]:
        async with session(self._pool) as conn:
            return await find_pix_of_cob(conn, world=self.world, txid=txid, limit=_PIX_OF_COB_MAX)

    async def booked_pix(self, end_to_end_id: str) -> BookedPix | None:
        async with session(self._pool) as conn:
            return await find_pix(conn, world=self.world, end_to_end_id=end_to_end_id)

    async def pix_page(
        self, since: datetime, until: datetime, *, page: int, per_page: int, returned: bool = False
    ) -> tuple[list[BookedPix], int]:
        """Return one page (from 0) and the total number of PIX."""
        of = {"world": self.world, "since": since, "until": until, "returned": returned}
        async with session(self._pool) as conn:
            total = await count_received(conn, **of)
            rows = await find_received(conn, **of, limit=per_page, skip=page * per_page)
        return rows, total

    async def callback(self, pix_key: str) -> Callback | None:
        async with session(self._pool) as conn:
            return await find_callback(conn, world=self.world, pix_key=pix_key)

    async def claim_untold(self, *, limit: int, attempts_max: int) -> list[Untold]:
        async with session(self._pool) as conn:
            return await claim_untold(conn, world=self.world, now=self.now(), limit=limit, attempts_max=attempts_max)

    async def mark_told(self, end_to_end_ids: list[str]) -> None:
        async with session(self._pool) as conn:
            await mark_told(conn, world=self.world, end_to_end_ids=end_to_end_ids)

    async def set_fault(self, played: PlayedFault) -> None:
        async with session(self._pool) as conn:
            await set_fault(conn, world=self.world, fault=played.fault, delay_ms=played.delay_ms)

    async def fault(self) -> PlayedFault:
        async with session(self._pool) as conn:
            return await find_fault(conn, world=self.world) or PlayedFault("up")

    def payer(self, cob: BookedCob) -> CobPayer | None:
        if cob.payer_sealed is None:
            return None
        return _read_payer(self._seal.open(cob.payer_sealed, SIMULATED_COB_PAYER, cob.txid))

    async def _received(self, pix: Sequence[BookedPix]) -> list[ReceivedPix]:
        returned: dict[str, list[PixReturn]] = {}
        for each in await self.transfers.returns_of([each.end_to_end_id for each in pix]):
            if self.transfers.status(each) == "DONE":
                back = PixReturn(id=each.id, return_id=each.return_id, amount_cents=each.amount_cents)
                returned.setdefault(each.end_to_end_id, []).append(back)
        return [
            ReceivedPix(
                end_to_end_id=each.end_to_end_id,
                txid=each.txid,
                amount_cents=each.amount_cents,
                paid_at=each.paid_at,
                payer_name=each.payer_name,
                payer_document=each.payer_document,
                interest_cents=each.interest_cents,
                fine_cents=each.fine_cents,
                discount_cents=each.discount_cents,
                boleto_number=number_of_txid(each.txid),
                returned=tuple(returned.get(each.end_to_end_id, ())),
            )
            for each in pix
        ]
