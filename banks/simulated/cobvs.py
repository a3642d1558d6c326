"""Charges with a due date (cobv) in the simulated bank's books: the rows of simulated_cob with a due date."""

from collections.abc import Awaitable, Callable
from datetime import date, datetime
from typing import Final

import msgspec
from msgspec import Struct

import sql
from banks.protocol import DESCRIPTION_CHARACTERS_MAX, CobState, Cobv, Done, Location, NotFound, Rejected
from domain.boleto.terms import PaymentTerms, expires_at
from runtime.ids import ordered_token
from runtime.postgres import Pool, session
from runtime.seal import SIMULATED_COB_PAYER, Seal

REMOVED: Final = "REMOVIDA_PELO_USUARIO_RECEBEDOR"
REFUSED: Final = "CobVOperacaoInvalida"
NOT_ACTIVE: Final = Rejected(REFUSED, "A cobrança já não está ATIVA.")
# By the result of the statement put_cobv.
_ANSWERS: Final[dict[str, Done[None] | Rejected]] = {
    "put": Done(None),
    "no_location": Rejected(REFUSED, "A location informada não existe."),
    "location_taken": Rejected(REFUSED, "A location informada já é de outra cobrança."),
    "not_active": NOT_ACTIVE,
}


class CobPayer(Struct, frozen=True):
    """The payer (devedor) of a charge; stored sealed."""

    name: str | None
    document: str | None


class _Standing(Struct, frozen=True):
    status: str
    created_at: datetime


class AddedLocation(Struct, frozen=True):
    location_id: int
    location: str


add_locations = sql.many("simulated_bank.add_locations", AddedLocation)
put = sql.one("simulated_bank.put_cobv", str)
find = sql.maybe("simulated_bank.standing", _Standing)
remove = sql.maybe("simulated_bank.remove_cob", str)
redate = sql.maybe("simulated_bank.redate_cobv", str)
_encode = msgspec.json.Encoder().encode


def sealed_payer(seal: Seal, name: str | None, document: str | None, txid: str) -> bytes | None:
    if name is None and document is None:
        return None
    return seal.seal(_encode(CobPayer(name, document)), SIMULATED_COB_PAYER, txid)


class SimulatedCobvs:
    """The cobvs of one world. `prefix` begins each location; `look` returns a charge's state with its payments."""

    def __init__(
        self,
        pool: Pool,
        seal: Seal,
        *,
        world: str,
        prefix: str,
        now: Callable[[], datetime],
        look: Callable[[str], Awaitable[CobState | NotFound]],
    ) -> None:
        self._pool = pool
        self._seal = seal
        self._world = world
        self._prefix = prefix
        self._now = now
        self._look = look

    async def create_cobv_location(self) -> Done[Location]:
        async with session(self._pool) as conn:
            (made,) = await add_locations(
                conn, world=self._world, prefix=self._prefix, tokens=[ordered_token()], now=self._now()
            )
        return Done(Location(made.location_id, made.location))

    async def put_cobv(self, cobv: Cobv) -> Done[None] | Rejected:
        now = self._now()
        async with session(self._pool) as conn:
            became = await put(
                conn,
                world=self._world,
                txid=cobv.txid,
                amount_cents=cobv.amount_cents,
                pix_key=cobv.pix_key,
                description=(cobv.description or "")[:DESCRIPTION_CHARACTERS_MAX] or None,
                payer_sealed=sealed_payer(self._seal, cobv.payer_name, cobv.payer_document, cobv.txid),
                created_at=now,
                expires_in_s=_left_s(cobv.terms, cobv.due_on, now),
                location_id=cobv.location_id,
                due_on=cobv.due_on,
                terms=_encode(cobv.terms),
            )
        return _ANSWERS[became]

    async def get_cobv(self, txid: str) -> CobState | NotFound:
        return await self._look(txid)

    async def remove_cobv(self, txid: str) -> Done[None] | NotFound | Rejected:
        async with session(self._pool) as conn:
            if await remove(conn, world=self._world, txid=txid) is not None:
                return Done(None)
            found = await find(conn, world=self._world, txid=txid)
        if found is None:
            return NotFound()
        return Done(None) if found.status == REMOVED else NOT_ACTIVE

    async def revise_cobv(self, txid: str, due_on: date, terms: PaymentTerms) -> Done[None] | NotFound | Rejected:
        async with session(self._pool) as conn:
            found = await find(conn, world=self._world, txid=txid)
            if found is None:
                return NotFound()
            moved = await redate(
                conn,
                world=self._world,
                txid=txid,
                due_on=due_on,
                terms=_encode(terms),
                expires_in_s=_left_s(terms, due_on, found.created_at),
            )
        return NOT_ACTIVE if moved is None else Done(None)


def _left_s(terms: PaymentTerms, due_on: date, since: datetime) -> int:
    """Return the seconds from `since` until the end of the last payable day."""
    return max(int((expires_at(terms, due_on) - since).total_seconds()), 1)
