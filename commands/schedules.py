"""Charge schedules: create, pause, resume and cancel them, and issue the charge of each number once.

Each number of a schedule has an Idempotency-Key, `schedule:<id>:<number>`, so its charge is created once: after a crash
the next look finds the charge under that key, or none. A PIX charge is written in the transaction that advances the
schedule. A boleto is ordered from the bank as the API does (commands/charges/create_boleto.py); later looks at the
schedule find it registered.
"""

import hashlib
from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from banks.boletos import Agreement
from commands.bank_orders.pix_locations import PixLocation
from commands.charges.create_boleto import BoletoRequest, compose_boleto, order_boletos
from commands.charges.create_pix import Creation, compose_pix, create_pix
from commands.charges.issuer import Issuer
from domain.boleto.terms import PaymentTerms
from domain.charge import LIFETIME_MIN
from domain.errors import Code, Refused
from domain.instants import day_ends, day_of, to_millisecond
from domain.merchants.address import is_complete
from domain.schedules.recurrence import Frequency, Recurrence, issue_at
from domain.schedules.terms import ScheduleTerms, terms_of_charge
from runtime.coordination.due_times import LateDueTimes
from runtime.ids import new_id
from runtime.seal import CHARGE_PAYER, SCHEDULE_PAYER, Seal
from sql import Connection

PIX: Final = "pix"
METHODS: Final = (PIX, "boleto", "boleto_hibrido")
CLAIMED_MAX: Final = 50
"""Schedules that one look claims to issue a charge, and as many again whose boletos are being registered."""
LEASE: Final = timedelta(seconds=60)
BOLETO_LOOK: Final = timedelta(seconds=2)
"""Time between two looks at whether the bank has registered a boleto."""
BOLETO_DEADLINE: Final = timedelta(minutes=5)
"""Deadline of a registration. No API request waits for it, so a slow bank has time; a bank that stays silent is asked
again by a later order."""
BEHIND_REQUESTS: Final = LateDueTimes(BOLETO_DEADLINE * 0.8)
"""Registrations for schedules are taken up at once while the bank keeps up, and else only after those of requests:
thousands of schedules are due at the same moment, and a boleto that is requested waits for ten seconds."""
RETRIES: Final = tuple(timedelta(minutes=each) for each in (1, 5, 15, 60))
"""Backoff after each failure; the last delay repeats until the number's due date is over."""
ACTOR: Final = "schedule"

# fmt: off
CHANGES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "pause":  (("active",),          "paused"),
    "resume": (("paused",),          "active"),
    "cancel": (("active", "paused"), "cancelled"),
}
# fmt: on
"""For each change, the statuses it starts from and the status it leads to. A schedule that already has the resulting
status is left as it is, and the change succeeds."""


class NewSchedule(Struct, frozen=True, kw_only=True):
    """A valid request to create a schedule. `payer_sealed` has the JSON form that the schedule's charges keep."""

    account_id: UUID
    key: str
    fingerprint: bytes
    schedule_id: UUID
    payment_method: str
    amount_cents: int
    recurrence: Recurrence
    issue_days_before: int
    terms: ScheduleTerms | None = None
    """Only for boletos."""
    external_id: str | None
    description: str | None
    send_email: bool
    metadata: dict[str, str] | None = None
    payer_sealed: bytes
    payer_document_hash: str | None


class DueCharge(Struct, frozen=True, gc=False):
    """A claimed schedule with its next number, its account, and the resource that the number's key already made."""

    account_id: UUID
    schedule_id: UUID
    status: str
    payment_method: str
    amount_cents: int
    frequency: str
    first_due_date: date
    end_date: date | None
    max_charges: int | None
    issue_days_before: int
    terms: bytes | None
    external_id: str | None
    description: str | None
    send_email: bool
    metadata: bytes | None
    payer_sealed: bytes
    payer_document_hash: str | None
    number: int
    due_date: date
    ordered: bool
    failures: int
    failure_code: str | None
    failed_at: datetime | None
    key: str
    name: str
    city: str
    pix_key: str
    address: bytes | None
    approved: bool
    fingerprint: bytes | None
    resource_id: UUID | None
    under_way: bool

    @property
    def recurrence(self) -> Recurrence:
        return Recurrence(
            frequency=Frequency(self.frequency),
            first_due_date=self.first_due_date,
            end_date=self.end_date,
            max_charges=self.max_charges,
        )

    @property
    def issuer(self) -> Issuer:
        return Issuer(
            account_id=self.account_id,
            test=False,
            name=self.name,
            city=self.city,
            pix_key=self.pix_key,
            actor=ACTOR,
        )

    @property
    def mark(self) -> bytes:
        """The request fingerprint stored with the number's idempotency key."""
        return hashlib.sha256(self.key.encode()).digest()


class DueAccount(Struct, frozen=True, gc=False):
    """An account whose schedules may be due. `n` is its place in the rotation, 0 for the accounts due the longest."""

    account_id: UUID
    n: int
    due: bool


_insert = sql.maybe("schedule.insert", UUID)
_change_status = sql.maybe("schedule.change_status", str)
turn = sql.many("schedule.turn", DueAccount)
claim = sql.many("schedule.claim", DueCharge)
_lock_schedule = sql.maybe("schedule.hold", bool)
_advance = sql.run("schedule.advance")
_postpone = sql.run("schedule.wait")
read_schedule_terms = msgspec.json.Decoder(ScheduleTerms).decode
_read_metadata = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


async def create_schedule(conn: Connection, new: NewSchedule, *, now: datetime) -> bool:
    """Write the schedule, in one statement; False when its idempotency key was used before."""
    recurrence = new.recurrence
    inserted = await _insert(
        conn,
        account_id=new.account_id,
        key=new.key,
        fingerprint=new.fingerprint,
        schedule_id=new.schedule_id,
        payment_method=new.payment_method,
        amount_cents=new.amount_cents,
        frequency=recurrence.frequency,
        first_due_date=recurrence.first_due_date,
        end_date=recurrence.end_date,
        max_charges=recurrence.max_charges,
        issue_days_before=new.issue_days_before,
        terms=None if new.terms is None else _encode(new.terms),
        external_id=new.external_id,
        description=new.description,
        send_email=new.send_email,
        metadata=None if new.metadata is None else _encode(new.metadata),
        payer_sealed=new.payer_sealed,
        payer_document_hash=new.payer_document_hash,
        look_at=issue_at(recurrence.first_due_date, days_before=new.issue_days_before),
        now=now,
    )
    return inserted is not None


async def change_schedule(conn: Connection, schedule_id: UUID, account_id: UUID, change: str) -> None:
    """Pause, resume or cancel a schedule; its row stays locked until the transaction ends. Refused: SCHEDULE_NOT_FOUND,
    SCHEDULE_ENDED."""
    statuses, status = CHANGES[change]
    before = await _change_status(
        conn, schedule_id=schedule_id, account_id=account_id, status=status, statuses=list(statuses)
    )
    if before is None:
        raise Refused(Code.SCHEDULE_NOT_FOUND)
    if before not in (*statuses, status):
        raise Refused(Code.SCHEDULE_ENDED, status=before)


def obstacle(due: DueCharge) -> Code | None:
    """Returns the error code of the account's state that prevents issuing the charge now, or None."""
    if not due.approved:
        return Code.KYC_REQUIRED
    if due.payment_method != PIX and not is_complete(due.address):
        return Code.MERCHANT_ADDRESS_REQUIRED
    return None


def over(due: DueCharge, *, now: datetime) -> bool:
    """Whether it is too late to issue the number: its due date has passed, or the rest of that day is shorter than the
    minimum lifetime of a PIX charge."""
    needed = LIFETIME_MIN if due.payment_method == PIX else timedelta()
    return day_of(now + needed) > due.due_date


async def hold(conn: Connection, due: DueCharge) -> bool | None:
    """Lock the schedule until the transaction ends; returns whether its account may still charge, or None when the
    number must no longer be issued. A merchant who stopped the schedule after it was claimed, or staff who blocked the
    account, have already been told that it takes effect, so no charge may follow."""
    return await _lock_schedule(conn, schedule_id=due.schedule_id, account_id=due.account_id, number=due.number)


async def issue_pix(conn: Connection, due: DueCharge, location: PixLocation, *, now: datetime, seal: Seal) -> bool:
    """Create the number's charge and advance the schedule, in the caller's transaction. The charge can be paid until
    the end of its due date.

    False: the idempotency key is used already, or PIX is suspended.
    """
    now = to_millisecond(now)
    charge_id = new_id()
    creation = Creation(
        issuer=due.issuer,
        key=due.key,
        fingerprint=due.mark,
        charge_id=charge_id,
        request_id=due.key,
        now=now,
        amount_cents=due.amount_cents,
        lifetime_s=int((day_ends(due.due_date) - now).total_seconds()),
        external_id=due.external_id,
        description=due.description,
        payer_sealed=_reseal_payer(due, charge_id, seal),
        payer_document_hash=due.payer_document_hash,
        scenario=None,
        send_email=due.send_email,
        metadata=_charge_metadata(due),
        schedule_id=str(due.schedule_id),
    )
    if charge_id not in await create_pix(conn, [compose_pix(creation, location, due_times=BEHIND_REQUESTS)]):
        return False
    await advance(conn, due, state="issued", charge_id=charge_id, failure_code=None, now=now)
    return True


async def order_boleto(
    conn: Connection, due: DueCharge, control: int, *, agreement: Agreement, now: datetime, seal: Seal
) -> None:
    """Order the registration of the number's boleto under this control number, unless one is under way already, and
    look again after BOLETO_LOOK."""
    now = to_millisecond(now)
    charge_id = new_id()
    request = BoletoRequest(
        charge_id=charge_id,
        issuer=due.issuer,
        key=due.key,
        fingerprint=due.mark,
        request_id=due.key,
        kind=due.payment_method,
        amount_cents=due.amount_cents,
        due_on=due.due_date,
        terms=_payment_terms(due, now),
        payer_sealed=_reseal_payer(due, charge_id, seal),
        payer_document_hash=due.payer_document_hash,
        external_id=due.external_id,
        description=due.description,
        send_email=due.send_email,
        metadata=_charge_metadata(due),
        schedule_id=str(due.schedule_id),
    )
    order = compose_boleto(
        request,
        control,
        agreement=agreement,
        now=now,
        due_at=BEHIND_REQUESTS.take(due.account_id, now),
        deadline=now + BOLETO_DEADLINE,
        reply_to=None,
    )
    await order_boletos(conn, [order])
    await wait(conn, due, look_at=now + BOLETO_LOOK, ordered=True)


def _charge_metadata(due: DueCharge) -> dict[str, str] | None:
    return None if due.metadata is None else _read_metadata(due.metadata)


def _payment_terms(due: DueCharge, now: datetime) -> PaymentTerms | None:
    terms = None if due.terms is None else read_schedule_terms(due.terms)
    return terms_of_charge(terms, due.due_date, issued_on=day_of(now))


def _reseal_payer(due: DueCharge, charge_id: UUID, seal: Seal) -> bytes:
    """Returns the schedule's payer, re-sealed for this charge."""
    return seal.seal(seal.open(due.payer_sealed, SCHEDULE_PAYER, due.schedule_id), CHARGE_PAYER, charge_id)


async def advance(
    conn: Connection, due: DueCharge, *, state: str, charge_id: UUID | None, failure_code: str | None, now: datetime
) -> None:
    """Record the outcome of the number and go on to the next number, or finish the schedule."""
    following = due.recurrence.due_date(due.number + 1)
    await _advance(
        conn,
        schedule_id=due.schedule_id,
        account_id=due.account_id,
        number=due.number,
        due_date=due.due_date,
        state=state,
        charge_id=charge_id,
        failure_code=failure_code,
        next_number=None if following is None else due.number + 1,
        next_due_date=following,
        look_at=now if following is None else issue_at(following, days_before=due.issue_days_before),
        now=now,
    )


async def wait(conn: Connection, due: DueCharge, *, look_at: datetime, ordered: bool) -> None:
    """Look at the schedule again at `look_at`; earlier failures stay on record."""
    await _postpone(
        conn,
        schedule_id=due.schedule_id,
        account_id=due.account_id,
        number=due.number,
        look_at=look_at,
        ordered=ordered,
        failures=due.failures,
        failure_code=due.failure_code,
        failed_at=due.failed_at,
    )


async def fail(conn: Connection, due: DueCharge, code: Code, *, now: datetime) -> None:
    """Record that the number could not be issued now, and retry after the next delay of RETRIES."""
    await _postpone(
        conn,
        schedule_id=due.schedule_id,
        account_id=due.account_id,
        number=due.number,
        look_at=now + RETRIES[min(due.failures, len(RETRIES) - 1)],
        ordered=False,
        failures=due.failures + 1,
        failure_code=code.name,
        failed_at=now,
    )
