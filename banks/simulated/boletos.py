"""The simulated bank's books of boletos: registration, new due dates, write-off, payment on either rail, settlement.

The codes of the states are the real bank's: 1 open, 14 announced (the payer's bank has reported a payment, the money is
on its way), 6 settled, 7 written off. Each call is one statement, as in banks/simulated/bank.py.
"""

import secrets
import string
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct

import sql
from banks.banco_do_brasil.agreement import boleto_codes
from banks.boletos import (
    NOT_FOUND,
    NUMBER_TAKEN,
    PAID,
    WRITTEN_OFF,
    BoletoPayer,
    BoletoState,
    NewBoleto,
    NotYet,
    PaidBoleto,
    RegisteredBoleto,
)
from banks.lists import BankPage, unreadable_item
from banks.protocol import DESCRIPTION_CHARACTERS_MAX, Done, NotFound, Rejected, Unknown
from banks.received import ReceivedPix
from banks.simulated.boleto_terms import WireTerms, due_value
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import AmountDue, PaymentTerms, amount_due, days_accepted_late, fine_begins
from domain.instants import day_begins, day_ends, day_of, iso
from domain.pix.br_code import dynamic_br_code
from domain.pix.end_to_end import end_to_end_id
from runtime.ids import ordered_token
from runtime.postgres import Pool, session
from runtime.seal import SIMULATED_BOLETO_PAYER, Seal

OPEN: Final = 1
SETTLED: Final = 6
WRITTEN_OFF_STATE: Final = 7
ANNOUNCED: Final = 14
TOO_YOUNG: Final = timedelta(minutes=30)
PAGE = 300
"""Boletos per page of the list, as at Banco do Brasil."""

# The ISPB of the payers' bank; no institution has it.
PAYER_ISPB: Final = "99999998"
# The payer, a fictional person with an unassigned document.
PAYER_NAME: Final = "PAGADOR DE TESTE"
PAYER_DOCUMENT: Final = "00000000191"
# The key of every boleto's PIX side; at the real bank it is the key named in the agreement.
PIX_KEY: Final = "boletos@banco-simulado.test"

_ALPHABET = string.ascii_letters + string.digits
_FIRST_DAY: Final = date(2000, 1, 1)
_LAST_DAY: Final = date(2100, 1, 1)

Rail = Literal["boleto", "pix"]
Became = Literal["done", "not_found", "written_off", "paid", "announced", "too_young"]


class BookedBoleto(Struct, frozen=True):
    """A stored boleto; the paid amounts count settled payments only."""

    number: str
    seu_numero: str
    amount_cents: int
    issued_on: date
    due_on: date
    terms: bytes | None
    fine_from: date | None
    late_days: int
    description: str | None
    payer_sealed: bytes
    registered_at: datetime
    txid: str | None
    location: str | None
    payments: int
    written_off_at: datetime | None
    paid_cents: int
    interest_cents: int
    fine_cents: int
    discount_cents: int
    paid_at: datetime | None
    settled_at: datetime | None
    rail: str | None

    @property
    def state(self) -> int:
        if self.paid_cents:
            return SETTLED
        if self.payments:
            return ANNOUNCED
        return OPEN if self.written_off_at is None else WRITTEN_OFF_STATE

    @property
    def emv(self) -> str | None:
        """The BR Code of a hybrid boleto. It is printed once, so it contains no amount if the boleto has terms that
        change the amount from day to day."""
        if self.location is None:
            return None
        amount_cents = self.amount_cents if self.terms is None else None
        return dynamic_br_code(location=self.location, amount_cents=amount_cents, name="BENEFICIARIO", city="BRASILIA")

    @property
    def agreed(self) -> PaymentTerms | None:
        return None if self.terms is None else _read_terms(self.terms)

    @property
    def last_day(self) -> date:
        """The last day on which it is accepted."""
        return effective_due_date(self.due_on + timedelta(days=self.late_days))

    def due(self, on: date) -> AmountDue:
        """The amount due on a day. The fine begins on its registered day, whatever the due date is now."""
        asked = amount_due(self.agreed, amount_cents=self.amount_cents, due=self.due_on, on=on)
        if asked.fine_cents and self.fine_from is not None and on < self.fine_from:
            total_cents = asked.total_cents - asked.fine_cents
            return msgspec.structs.replace(asked, total_cents=total_cents, fine_cents=0)
        return asked

    @property
    def codes(self) -> tuple[str, str]:
        """The present barcode and line."""
        return boleto_codes(self.number, due_on=self.due_on, amount_cents=self.amount_cents)


class ListedBoleto(Struct, frozen=True):
    number: str
    amount_cents: int
    due_on: date
    registered_at: datetime
    payments: int
    moved_at: datetime | None
    garbled: bool
    """Listed in an unreadable form, for tests."""
    paid_cents: int


class _SettledPix(Struct, frozen=True):
    end_to_end_id: str
    txid: str
    amount_cents: int
    paid_at: datetime
    payer_name: str
    payer_document: str


class BoletoPayment(Struct, frozen=True):
    number: str
    rail: str
    amount_cents: int
    paid_at: datetime
    end_to_end_id: str | None


class UntoldPayment(Struct, frozen=True):
    """A payment whose announcement or cancellation is to be sent, with the webhook's address."""

    payment_id: int
    number: str
    rail: str
    amount_cents: int
    paid_at: datetime
    called_off: bool
    payer_name: str
    payer_document: str
    boleto_cents: int
    due_on: date
    registered_at: datetime
    url: str


class BoletoRules(Struct, frozen=True):
    """Rules of the real bank that are off by default (0013_simulated_bank.sql)."""

    apply_30_minutes: bool
    detail_cache_s: float
    settle_after_s: float


add = sql.maybe("simulated_boleto.add", str)
find = sql.maybe("simulated_boleto.boleto", BookedBoleto)
find_pix = sql.many("simulated_boleto.pix", _SettledPix)
find_number_at = sql.maybe("simulated_boleto.number_at", str)
change = sql.maybe("simulated_boleto.change", str)
write_off = sql.maybe("simulated_boleto.write_off", str)
add_pix = sql.maybe("simulated_boleto.add_pix", str)
remove_pix = sql.maybe("simulated_boleto.remove_pix", str)
pay = sql.many("simulated_boleto.pay", BoletoPayment)
call_off = sql.maybe("simulated_boleto.call_off", int)
find_open_page = sql.many("simulated_boleto.open_page", ListedBoleto)
find_closed_page = sql.many("simulated_boleto.closed_page", ListedBoleto)
claim_untold = sql.many("simulated_boleto.claim_untold", UntoldPayment)
mark_told = sql.run("simulated_boleto.told")
set_webhook = sql.run("simulated_boleto.set_webhook")
find_webhook = sql.maybe("simulated_boleto.webhook", str)
find_rules = sql.one("simulated_boleto.rules", BoletoRules)
set_rules = sql.run("simulated_boleto.set_rules")

_encode = msgspec.json.Encoder().encode
_read_payer = msgspec.json.Decoder(BoletoPayer).decode
_read_terms = msgspec.json.Decoder(PaymentTerms).decode


class SimulatedBoletos:
    """The books of boletos in one world. `url` is where the locations of hybrid boletos are served, with its scheme."""

    def __init__(self, pool: Pool, seal: Seal, *, world: str, url: str, now: Callable[[], datetime]) -> None:
        self._pool = pool
        self._seal = seal
        self._world = world
        self._prefix = f"{url.partition('://')[2]}/pix/v2/cobv/"
        self.now = now

    # The port (banks/protocol.py)

    async def register_boleto(self, boleto: NewBoleto) -> Done[RegisteredBoleto] | Rejected | Unknown:
        try:
            boleto_codes(boleto.number, due_on=boleto.due_on, amount_cents=boleto.amount_cents)
        except ValueError as error:
            return Rejected("INVALID_BOLETO", str(error)[:200])
        added = await self.add(boleto)
        booked = await self.booked(boleto.number)
        if booked is None:
            return Unknown("the boleto is gone")
        if not added:
            # The number was used before, by a repeated registration or for another boleto: the first boleto stays.
            if not self._same(booked, boleto):
                return Rejected(NUMBER_TAKEN, "The number is another boleto's.")
            if booked.state == WRITTEN_OFF_STATE:
                return Rejected(WRITTEN_OFF, "The boleto was written off.")
        return Done(RegisteredBoleto(qr_code=booked.emv if boleto.hybrid else None))

    async def find_boleto(self, number: str) -> BoletoState | NotFound:
        booked = await self.booked(number)
        if booked is None:
            return NotFound()
        state = _state(booked)
        if booked.txid is None or state.status != "paid":
            return state
        async with session(self._pool) as conn:
            received = await find_pix(conn, world=self._world, number=number, now=self.now())
        return msgspec.structs.replace(
            state, pix=tuple(ReceivedPix(**msgspec.structs.asdict(each)) for each in received)
        )

    async def redate_boleto(
        self, number: str, due_on: date, *, terms: PaymentTerms | None = None, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        if due_on < self.today():
            return Rejected("INVALID_DUE_DATE", "The due date has passed.")
        fine_from = None if terms is None or terms.fine is None else fine_begins(due_on)
        late_days = None if terms is None else days_accepted_late(terms, due_on)
        became = await self.change(number, due_on=due_on, fine_from=fine_from, late_days=late_days)
        return await self._answered(number, became)

    async def write_off_boleto(
        self, number: str, *, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        became = await self.write_off(number)
        return Done(None) if became == "written_off" else await self._answered(number, became)

    async def paid_page(self, since: date, until: date, after: str | None = None) -> Done[BankPage[PaidBoleto]]:
        skip = int(after or 0)
        rows = await self.closed_page(moved=(since, until), states=[SETTLED], skip=skip)
        return Done(
            BankPage(
                items=[_paid(row) for row in rows[:PAGE] if not row.garbled],
                unreadable=[unreadable_item(b"{}", row.number) for row in rows[:PAGE] if row.garbled],
                following=str(skip + PAGE) if len(rows) > PAGE else None,
            )
        )

    # Beyond the port: payers, and the needs of the bank's HTTP API.

    async def add(self, boleto: NewBoleto, wire: WireTerms | None = None) -> bool:
        """Register a boleto; False if the number was used before. `wire`: the terms of a registration over HTTP."""
        wire = wire or _wire_terms(boleto)
        txid, token, location = self._new_pix(boleto.number) if boleto.hybrid else (None, None, None)
        async with session(self._pool) as conn:
            added = await add(
                conn,
                world=self._world,
                number=boleto.number,
                seu_numero=boleto.seu_numero,
                amount_cents=boleto.amount_cents,
                issued_on=boleto.issued_on,
                due_on=boleto.due_on,
                terms=None if wire.terms is None else _encode(wire.terms),
                fine_from=wire.fine_from,
                late_days=wire.late_days,
                description=boleto.description,
                payer_sealed=self._seal.seal(_encode(boleto.payer), SIMULATED_BOLETO_PAYER, boleto.number),
                now=self.now(),
                txid=txid,
                token=token,
                location=location,
            )
        return added is not None

    async def booked(self, number: str) -> BookedBoleto | None:
        async with session(self._pool) as conn:
            return await find(conn, world=self._world, number=number, now=self.now())

    async def booked_at(self, token: str) -> BookedBoleto | None:
        """Return the boleto at a location."""
        async with session(self._pool) as conn:
            number = await find_number_at(conn, world=self._world, token=token)
            return None if number is None else await find(conn, world=self._world, number=number, now=self.now())

    async def change(
        self, number: str, *, due_on: date | None = None, fine_from: date | None = None, late_days: int | None = None
    ) -> Became:
        """Change an open boleto; an argument that is None changes nothing."""
        async with session(self._pool) as conn:
            done = await change(
                conn,
                world=self._world,
                number=number,
                due_on=due_on,
                fine_from=fine_from,
                late_days=late_days,
                old_enough=self.now() - TOO_YOUNG,
            )
        return "done" if done is not None else await self._why_not(number)

    async def write_off(self, number: str) -> Became:
        now = self.now()
        async with session(self._pool) as conn:
            done = await write_off(conn, world=self._world, number=number, now=now, old_enough=now - TOO_YOUNG)
        return "done" if done is not None else await self._why_not(number)

    async def add_pix(self, number: str) -> bool:
        """Add a PIX side to an open boleto; False if it has one, is not open, or does not exist."""
        txid, token, location = self._new_pix(number)
        async with session(self._pool) as conn:
            row = await add_pix(conn, world=self._world, number=number, txid=txid, token=token, location=location)
        return row is not None

    async def remove_pix(self, number: str) -> bool:
        async with session(self._pool) as conn:
            return await remove_pix(conn, world=self._world, number=number) is not None

    async def pay(
        self,
        number: str,
        *,
        rail: Rail,
        amount_cents: int | None = None,
        paid_at: datetime | None = None,
        times: int = 1,
        end_to_end_ids: Sequence[str] | None = None,
        force: bool = False,
        after: int = 0,
        tell: bool = True,
    ) -> list[BoletoPayment]:
        """Pay a boleto on a rail. Returns no payments if it is not payable there, unless `force` says that the money
        was under way already. The default amount is what it costs that day; missing `end_to_end_ids` are generated.
        `after`: the number of payments the boleto must have had, so that of two payers who complete it one succeeds.
        """
        at = paid_at or self.now()
        ids = end_to_end_ids or [new_end_to_end_id(at) for _ in range(times)]
        booked = await self.booked(number)
        if booked is None:
            return []
        asked = booked.due(day_of(at))
        async with session(self._pool) as conn:
            return await pay(
                conn,
                world=self._world,
                number=number,
                rail=rail,
                amount_cents=asked.total_cents if amount_cents is None else amount_cents,
                interest_cents=asked.interest_cents,
                fine_cents=asked.fine_cents,
                discount_cents=asked.discount_cents,
                paid_at=at,
                end_to_end_ids=ids,
                force=force,
                after=after,
                payer_name=PAYER_NAME,
                payer_document=PAYER_DOCUMENT,
                pix_key=PIX_KEY,
                tell_at=self.now() if tell else None,
            )

    async def call_off(self, number: str) -> int:
        """Call off the announced payments; returns how many."""
        async with session(self._pool) as conn:
            return await call_off(conn, world=self._world, number=number, now=self.now()) or 0

    async def open_page(
        self,
        *,
        registered: tuple[date, date] = (_FIRST_DAY, _LAST_DAY),
        due: tuple[date, date] = (_FIRST_DAY, _LAST_DAY),
        overdue: Sequence[bool] = (True, False),
        skip: int = 0,
    ) -> list[ListedBoleto]:
        async with session(self._pool) as conn:
            return await find_open_page(
                conn,
                world=self._world,
                registered_from=day_begins(registered[0]),
                registered_before=day_ends(registered[1]),
                due_from=due[0],
                due_to=due[1],
                overdue=list(overdue),
                today=self.today(),
                now=self.now(),
                limit=PAGE + 1,
                skip=skip,
            )

    async def closed_page(
        self,
        *,
        moved: tuple[date, date] = (_FIRST_DAY, _LAST_DAY),
        registered: tuple[date, date] = (_FIRST_DAY, _LAST_DAY),
        due: tuple[date, date] = (_FIRST_DAY, _LAST_DAY),
        overdue: Sequence[bool] = (True, False),
        states: Sequence[int] = (SETTLED, WRITTEN_OFF_STATE),
        skip: int = 0,
        limit: int = PAGE + 1,
    ) -> list[ListedBoleto]:
        async with session(self._pool) as conn:
            return await find_closed_page(
                conn,
                world=self._world,
                moved_from=day_begins(moved[0]),
                moved_before=day_ends(moved[1]),
                registered_from=day_begins(registered[0]),
                registered_before=day_ends(registered[1]),
                due_from=due[0],
                due_to=due[1],
                overdue=list(overdue),
                states=list(states),
                today=self.today(),
                now=self.now(),
                limit=limit,
                skip=skip,
            )

    async def claim_untold(self, *, limit: int, attempts_max: int) -> list[UntoldPayment]:
        async with session(self._pool) as conn:
            return await claim_untold(conn, world=self._world, now=self.now(), limit=limit, attempts_max=attempts_max)

    async def mark_told(self, payment_ids: list[int]) -> None:
        async with session(self._pool) as conn:
            await mark_told(conn, world=self._world, payment_ids=payment_ids)

    async def set_webhook(self, url: str) -> None:
        async with session(self._pool) as conn:
            await set_webhook(conn, world=self._world, url=url, now=self.now())

    async def webhook(self) -> str | None:
        async with session(self._pool) as conn:
            return await find_webhook(conn, world=self._world)

    async def rules(self) -> BoletoRules:
        async with session(self._pool) as conn:
            return await find_rules(conn, world=self._world)

    async def set_rules(self, rules: BoletoRules) -> None:
        async with session(self._pool) as conn:
            await set_rules(
                conn,
                world=self._world,
                young_refused=rules.apply_30_minutes,
                detail_cache_s=rules.detail_cache_s,
                settle_after_s=rules.settle_after_s,
            )

    def payer(self, booked: BookedBoleto) -> BoletoPayer:
        return _read_payer(self._seal.open(booked.payer_sealed, SIMULATED_BOLETO_PAYER, booked.number))

    def today(self) -> date:
        return day_of(self.now())

    async def _why_not(self, number: str) -> Became:
        booked = await self.booked(number)
        if booked is None:
            return "not_found"
        if booked.state == SETTLED:
            return "paid"
        if booked.state == ANNOUNCED:
            return "announced"
        return "written_off" if booked.state == WRITTEN_OFF_STATE else "too_young"

    async def _answered(self, number: str, became: Became) -> Done[None] | Rejected | NotYet | Unknown:
        match became:
            case "done":
                return Done(None)
            case "not_found":
                return Rejected(NOT_FOUND, "The bank has no such boleto.")
            case "written_off":
                return Rejected(WRITTEN_OFF, "The boleto was written off.")
            case "paid":
                return Rejected(PAID, "The boleto is paid.")
            case "announced":
                return Unknown("a payment is on its way")
            case "too_young":
                booked = await self.booked(number)
                return NotYet(None if booked is None else booked.registered_at + TOO_YOUNG)

    def _same(self, booked: BookedBoleto, boleto: NewBoleto) -> bool:
        return (
            booked.amount_cents == boleto.amount_cents
            and booked.due_on == boleto.due_on
            and booked.seu_numero == boleto.seu_numero
            and self.payer(booked).document == boleto.payer.document
        )

    def _new_pix(self, number: str) -> tuple[str, str, str]:
        """Return a txid in Banco do Brasil's form, a token and a location."""
        token = ordered_token()
        return f"BOLETO{number[3:]}DATA{self.today():%d%m%Y}", token, self._prefix + token


def new_end_to_end_id(at: datetime) -> str:
    return end_to_end_id(PAYER_ISPB, at, "".join(secrets.choice(_ALPHABET) for _ in range(11)))


def boleto_payload(booked: BookedBoleto, *, now: datetime) -> bytes:
    """Return the payload of a hybrid boleto's location, to be signed: a charge with a due date (cobv).

    Anyone with the QR Code can read it, so it does not name the payer.
    """
    status = {OPEN: "ATIVA", WRITTEN_OFF_STATE: "REMOVIDA_PELO_USUARIO_RECEBEDOR"}.get(booked.state, "CONCLUIDA")
    shown: dict[str, object] = {
        "revisao": 0,
        "calendario": {
            "criacao": iso(booked.registered_at),
            "apresentacao": iso(now),
            "dataDeVencimento": booked.due_on.isoformat(),
            "validadeAposVencimento": (booked.last_day - effective_due_date(booked.due_on)).days,
        },
        "txid": booked.txid,
        "valor": due_value(booked.amount_cents, booked.due(day_of(now))),
        "chave": PIX_KEY,
        "status": status,
    }
    if booked.description is not None:
        shown["solicitacaoPagador"] = booked.description[:DESCRIPTION_CHARACTERS_MAX]
    return _encode(shown)


def _wire_terms(boleto: NewBoleto) -> WireTerms:
    terms = boleto.terms
    fine_from = None if terms is None or terms.fine is None else fine_begins(boleto.due_on)
    return WireTerms(terms, fine_from, days_accepted_late(terms, boleto.due_on))


def _state(booked: BookedBoleto) -> BoletoState:
    barcode, line = booked.codes
    status: Literal["open", "paid", "written_off", "in_between"] = "in_between"
    if booked.state == SETTLED:
        status = "paid"
    elif booked.state == WRITTEN_OFF_STATE:
        status = "written_off"
    elif booked.state == OPEN:
        status = "open"
    return BoletoState(
        number=booked.number,
        seu_numero=booked.seu_numero,
        status=status,
        amount_cents=booked.amount_cents,
        due_on=booked.due_on,
        line=line,
        barcode=barcode,
        registered_on=day_of(booked.registered_at),
        fine_from=booked.fine_from,
        late_days=booked.late_days,
        paid_cents=booked.paid_cents,
        interest_cents=booked.interest_cents,
        fine_cents=booked.fine_cents,
        discount_cents=booked.discount_cents,
        paid_on=None if booked.paid_at is None else day_of(booked.paid_at),
        paid_by_pix=booked.rail == "pix",
        txid=booked.txid if booked.rail == "pix" else None,
        qr_code=booked.emv if booked.rail == "pix" else None,
    )


def _paid(row: ListedBoleto) -> PaidBoleto:
    assert row.moved_at is not None, "a paid boleto has moved"
    return PaidBoleto(number=row.number, paid_cents=row.paid_cents, moved_on=day_of(row.moved_at))
