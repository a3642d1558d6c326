"""Write mails to payers and to merchants' dashboard users as rows, which workers send (workers/mail/sender.py).

A production charge created with `send_email` leaves a mail request. The request becomes a mail about the charge,
reminders while the charge is pending, and a receipt. A payment or a new due date makes the request due, in the
transaction that books it (commands/journal.py).
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec
import structlog
from cryptography.exceptions import InvalidTag
from msgspec import Struct

import sql
from commands.webhooks.notices import SECOND_COPY, Notice, claim_unmailed, mark_mailed
from domain.charge import Status
from domain.errors import Code, Refused
from domain.schedules.reminders import due_day, next_reminder_at, reminder_now
from runtime.ids import new_id
from runtime.seal import CHARGE_PAYER, MAIL_NOTE, MAIL_TO, Seal
from sql import Connection

REQUESTS_MAX: Final = 200
NOTICES_MAX: Final = 100
MAKING_CHARGES: Final = ("owner", "finance", "support")
"""Roles that create production charges (web/painel/table.py)."""
MAILED: Final = (Status.PENDING, Status.PAID, Status.REFUNDED)
"""Statuses of charges that a mail can be about: how to pay the charge, or its receipt."""
ASKED_MAX: Final = 20
ASKED_IN: Final = timedelta(hours=1)
"""In ASKED_IN a merchant may request at most ASKED_MAX mails about one charge. The merchant chooses their addresses."""
ASKED_OF_ACCOUNT_MAX: Final = 1_000
ASKED_TO_MAX: Final = 20
ASKED_DAY: Final = timedelta(hours=24)
"""In ASKED_DAY a merchant may request at most ASKED_OF_ACCOUNT_MAX mails in all and ASKED_TO_MAX to one address. The
mails go out in our name, hence the bounds."""
_ASKED_TOO_OFTEN: Final = (
    f"Too many mails: at most {ASKED_MAX} about one charge in an hour, and in a day {ASKED_TO_MAX} to one address and "
    f"{ASKED_OF_ACCOUNT_MAX} of the account."
)
PAID_LATE: Final = timedelta(days=30)
"""How long after its expiry a charge's payment still gets a receipt."""

_NO_DAY: Final = date(1970, 1, 1)
_LEASE = timedelta(minutes=1)
_UNREADABLE_DELAY: Final = timedelta(days=1)
_MAC_BYTES = 16

_log = structlog.get_logger()


class _Request(Struct, frozen=True, gc=False):
    charge_id: UUID
    account_id: UUID
    begun_at: datetime | None


class _Charge(Struct, frozen=True, gc=False):
    charge_id: UUID
    account_id: UUID
    status: str
    expires_at: datetime
    due_date: date | None
    payer_sealed: bytes | None


class _Person(Struct, frozen=True):
    account_id: UUID
    email: str
    role: str


class _Payer(Struct, frozen=True):
    """The field that is read of a sealed payer, whether a PIX payer or a boleto payer was sealed."""

    email: str | None = None


class _NextStep(Struct, frozen=True, gc=False):
    """The next step of a mail request: the mail to write now, and when to look at the request again (None: it ends)."""

    kind: str | None
    about_day: date
    begun_at: datetime | None
    due_at: datetime | None


class _NewMail(Struct, frozen=True, gc=False):
    mail_id: UUID
    charge: _Charge
    kind: str
    about_day: date
    to: str

    @property
    def attach_pdf(self) -> bool:
        """Only the first mail carries the PDF; reminders carry the linha digitavel and the link."""
        return self.kind == "charge"


find_due_requests = sql.many("mail.due_requests", _Request)
find_requested_charges = sql.many("mail.requested_charges", _Charge)
set_requests = sql.run("mail.set_requests")
end_requests = sql.run("mail.end_requests")
add = sql.run("mail.add")
ask = sql.maybe("mail.ask", str)
find_approved = sql.one("mail.approved", bool)
add_notice = sql.run("mail.add_notice")
find_people = sql.many("mail.people", _Person)
stop = sql.run("mail.stop")
drop = sql.run("mail.drop")
"""Deletes the mail `mail_id`, so that its address is not kept."""
_read_payer = msgspec.json.Decoder(_Payer).decode


async def write_mails(conn: Connection, *, now: datetime, seal: Seal) -> int:
    """Turn due mail requests into mails and schedule each request's next look; returns how many requests were due."""
    requests = await find_due_requests(conn, now=now, limit=REQUESTS_MAX)
    if not requests:
        return 0
    requested = await find_requested_charges(conn, charge_ids=[request.charge_id for request in requests])
    charges = {charge.charge_id: charge for charge in requested}
    mails: list[_NewMail] = []
    continued: list[tuple[_Request, _NextStep]] = []
    ended: list[_Request] = []
    for request in requests:
        charge = charges[request.charge_id]
        step = _next_step(request, charge, now=now)
        try:
            to = payer_email(charge.payer_sealed, charge.charge_id, seal)
        except InvalidTag:
            # A payer that no key opens must not stop the mails to all others. The key may be configured again later.
            _log.error("mail_payer_not_readable", charge_id=str(charge.charge_id))
            if now < charge.expires_at + PAID_LATE:
                continued.append((request, _NextStep(None, _NO_DAY, request.begun_at, now + _UNREADABLE_DELAY)))
            else:
                ended.append(request)
            continue
        if to is not None and step.kind is not None:
            mails.append(_NewMail(new_id(), charge, step.kind, step.about_day, to))
        if to is None or step.due_at is None:
            ended.append(request)
        else:
            continued.append((request, step))
    if mails:
        await _add_mails(conn, mails, now=now, seal=seal)
    if continued:
        continued_requests, steps = zip(*continued, strict=True)
        await set_requests(conn, requests=continued_requests, steps=steps)
    if ended:
        await end_requests(conn, requests=ended)
    return len(requests)


def _next_step(request: _Request, charge: _Charge, *, now: datetime) -> _NextStep:
    status = Status(charge.status)
    if status in (Status.PAID, Status.REFUNDED):
        return _NextStep("receipt", _NO_DAY, request.begun_at, None)
    ends_at = charge.expires_at + PAID_LATE
    if status in (Status.CANCELLED, Status.FAILED) or now >= ends_at:
        return _NextStep(None, _NO_DAY, request.begun_at, None)
    if charge.expires_at <= now:
        return _NextStep(None, _NO_DAY, request.begun_at or now, ends_at)
    due = due_day(charge.due_date, charge.expires_at)
    due_at = next_reminder_at(due, after=now) or ends_at
    if request.begun_at is None:
        return _NextStep("charge", _NO_DAY, now, due_at)
    reminder = reminder_now(due, begun_at=request.begun_at, now=now)
    return _NextStep(reminder, due, request.begun_at, due_at)


async def _add_mails(conn: Connection, mails: Sequence[_NewMail], *, now: datetime, seal: Seal) -> None:
    await add(
        conn,
        mails=mails,
        to_sealed=[seal.seal(mail.to.encode(), MAIL_TO, mail.mail_id) for mail in mails],
        to_hashes=[address_hash(mail.to, seal) for mail in mails],
        now=now,
    )


async def write_notices(conn: Connection, *, now: datetime, seal: Seal) -> int:
    """Turn notices not mailed yet into mails to the account's dashboard users; returns how many notices there were."""
    notices = await claim_unmailed(conn, now=now, lease_until=now + _LEASE, limit=NOTICES_MAX)
    if not notices:
        return 0
    people = await find_people(conn, account_ids=sorted({notice.account_id for notice in notices}))
    addressed = [(notice, each.email) for notice in notices for each in people if _gets_notice(each, notice)]
    if addressed:
        mail_ids = [new_id() for _ in addressed]
        await add_notice(
            conn,
            mail_ids=mail_ids,
            notices=[notice for notice, _ in addressed],
            to_sealed=[
                seal.seal(email.encode(), MAIL_TO, mail_id)
                for mail_id, (_, email) in zip(mail_ids, addressed, strict=True)
            ],
            to_hashes=[address_hash(email, seal) for _, email in addressed],
            now=now,
        )
    await mark_mailed(conn, notice_ids=[notice.notice_id for notice in notices], now=now)
    return len(notices)


def _gets_notice(person: _Person, notice: Notice) -> bool:
    """Whether the notice is mailed to this person. A request for a second copy is answered with a new charge, so it
    goes only to roles that create charges."""
    return person.account_id == notice.account_id and (notice.kind != SECOND_COPY or person.role in MAKING_CHARGES)


async def ask_for_mail(
    conn: Connection,
    *,
    mail_id: UUID,
    charge_id: UUID,
    account_id: UUID,
    to: str | None,
    note: str | None,
    attach_pdf: bool,
    now: datetime,
    seal: Seal,
) -> tuple[str, str]:
    """Queue a mail about the charge to `to`, or to its payer; returns the address and `queued` or `stopped`.

    `stopped`: the address has unsubscribed from this merchant's mails, or the merchant is blocked.
    Refused(PAYER_EMAIL_REQUIRED) without an address; Refused(RATE_LIMITED) when too many mails were requested;
    Refused(VALIDATION_ERROR) with fields.to when the account is not approved and `to` is not the payer's own address.
    """
    (charge,) = await find_requested_charges(conn, charge_ids=[charge_id])
    payer = payer_email(charge.payer_sealed, charge.charge_id, seal)
    to = to or payer
    if to is None:
        raise Refused(Code.PAYER_EMAIL_REQUIRED)
    if not is_same_address(to, payer) and not await find_approved(conn, account_id=account_id):
        fault = "must be the payer's own address while the account is not approved"
        raise Refused(Code.VALIDATION_ERROR, fields={"to": fault})
    state = await ask(
        conn,
        mail_id=mail_id,
        account_id=account_id,
        charge_id=charge_id,
        to_sealed=seal.seal(to.encode(), MAIL_TO, mail_id),
        to_hash=address_hash(to, seal),
        note_sealed=None if note is None else seal.seal(note.encode(), MAIL_NOTE, mail_id),
        attach_pdf=attach_pdf,
        now=now,
        since=now - ASKED_IN,
        limit=ASKED_MAX,
        since_day=now - ASKED_DAY,
        limit_to=ASKED_TO_MAX,
        limit_account=ASKED_OF_ACCOUNT_MAX,
    )
    if state is None:
        raise Refused(Code.RATE_LIMITED, message=_ASKED_TOO_OFTEN, retry_after_s=int(ASKED_IN.total_seconds()))
    return to, "queued" if state == "waiting" else "stopped"


def is_same_address(one: str, other: str | None) -> bool:
    """Whether two addresses are the same, ignoring case."""
    return other is not None and one.strip().lower() == other.strip().lower()


def payer_email(payer_sealed: bytes | None, charge_id: UUID, seal: Seal) -> str | None:
    return None if payer_sealed is None else _read_payer(seal.open(payer_sealed, CHARGE_PAYER, charge_id)).email or None


def address_hash(address: str, seal: Seal) -> str:
    """Returns a keyed hash that finds an address again without keeping it readable; case is ignored."""
    return seal.blind(address.strip().lower())


def stop_token(account_id: UUID, to_hash: str, seal: Seal) -> str:
    """Returns the signed token of the link that unsubscribes this address from this merchant's mails."""
    plain = account_id.bytes + bytes.fromhex(to_hash)
    return urlsafe_b64encode(plain + _macs(plain, seal)[0]).decode().rstrip("=")


def read_stop_token(token: str, seal: Seal) -> tuple[UUID, str] | None:
    """Returns (account_id, to_hash), or None for a token that none of our keys has signed."""
    if len(token) != 64 or not token.isascii():
        return None
    try:
        raw = urlsafe_b64decode(token)
    except (Base64Error, ValueError):
        return None
    plain, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
    if len(raw) != 48 or not any(hmac.compare_digest(mac, each) for each in _macs(plain, seal)):
        return None
    return UUID(bytes=plain[:16]), plain[16:].hex()


def _macs(plain: bytes, seal: Seal) -> list[bytes]:
    return [hmac.new(key, plain, sha256).digest()[:_MAC_BYTES] for key in seal.keys("mail-stop")]
