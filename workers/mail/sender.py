"""Write the mails that are due and send them.

A mail is claimed with its content, sent with no transaction open, and settled. A mail is never lost; when a worker or
the connection dies before the answer is stored, it is sent twice, with one Message-ID.
"""

import asyncio
import random
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

import sql
from commands.mail import stop_token, write_mails, write_notices
from commands.money.program_payouts import mail_payouts
from domain.mode import Mode, Owner
from readmodels.charges.boleto import boleto_to_print
from readmodels.charges.charge import read_doc
from readmodels.documents.boleto_pdf import BoletoPrinter
from readmodels.documents.logo import Logo, find_logo_shown
from readmodels.documents.mail_letter import Letter, charge_letter, notice_letter
from readmodels.documents.mail_message import Attached, BadAddress, message_bytes
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from runtime.seal import CAUGHT_MAIL, MAIL_NOTE, MAIL_TO
from workers.context import Context
from workers.mail.personal import personal_letter
from workers.mail.smtp import MailRejected, MailSent, MailUnknown, Outcome, SmtpConnection

CONNECTIONS_MAX: Final = 4
"""Connections of one process to the mail server."""
CLAIMED_MAX: Final = 40
LEASE: Final = timedelta(minutes=5)
ROUND_S: Final = 120.0
"""A round of sending ends before its leases do; the mails left over wait for the next round."""
BACKOFF_S: Final = (30, 120, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400)
"""The waits between ten attempts in about two days; each is spread by a fifth."""
CAUGHT_KEPT: Final = 200
_RELEASED_MAX = 200
_FORGOTTEN_MAX = 1_000
_SPREAD = 0.2

_log = structlog.get_logger()


class DueMail(Struct, frozen=True, gc=False):
    """A claimed mail, with the charge or notice it is about as it was when the mail was claimed."""

    mail_id: UUID
    account_id: UUID | None
    charge_id: UUID | None
    kind: str
    about_day: date
    to_sealed: bytes
    to_hash: str
    note_sealed: bytes | None
    attach_pdf: bool
    attempts: int
    merchant: str
    doc: bytes | None
    notice_kind: str | None
    event_type: str | None
    noticed_at: datetime | None
    facts: bytes | None
    stopped: bool
    blocked: bool
    """Its merchant is blocked: no payer is asked to pay now. Receipts are still sent."""


class _ReadyMail(Struct, frozen=True):
    due: DueMail
    to: str
    subject: str
    message: bytes


class _NothingToSend(Struct, frozen=True):
    """There is nothing to send. `failed`: because the mail cannot be sent, not because there is nothing to say."""

    trouble: str
    failed: bool = False


claim = sql.many("mail.claim", DueMail)
settle = sql.run("mail.settle")
put_back = sql.run("mail.put_back")
release = sql.run("mail.release")
forget = sql.count("mail.forget")
catch = sql.run("mail.catch")
forget_caught = sql.run("mail.forget_caught")


async def write_due_mails(context: Context) -> int:
    """Write mails for requests, for notices and about payouts of programs; returns how many."""
    now = context.now()
    async with transaction(context.pool) as conn:
        written = await write_mails(conn, now=now, seal=context.seal)
    async with transaction(context.pool) as conn:
        notices = await write_notices(conn, now=now, seal=context.seal)
    async with transaction(context.pool) as conn:
        payouts = await mail_payouts(conn, now=now, seal=context.seal)
    return written + notices + payouts


async def release_mails(context: Context) -> int:
    """Release the leases of workers that died; returns 0: no further round is needed at once."""
    async with session(context.pool) as conn:
        await release(conn, now=context.now(), limit=_RELEASED_MAX)
    return 0


async def forget_mails(context: Context) -> int:
    """Delete a batch of mails that ended longer ago than mails are kept; returns how many."""
    before = context.now() - timedelta(days=context.settings.mail_kept_days)
    async with session(context.pool) as conn:
        return await forget(conn, before=before, limit=_FORGOTTEN_MAX)


class MailSender:
    """Sends mails to the mail server of the settings, or to the mail catcher of local work. With neither they wait."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings
        self._printer = BoletoPrinter()
        self._has_warned = False

    async def drain(self) -> int:
        """One round; returns how many mails were claimed."""
        settings = self._settings
        if settings.smtp is None and not settings.mail_catcher:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("mail_not_set_up")
            return 0
        now = self._context.now()
        until = asyncio.get_running_loop().time() + ROUND_S  # before the claim, whose answer may come long after
        async with session(self._context.pool) as conn:
            claimed = await claim(conn, now=now, limit=CLAIMED_MAX, lease=LEASE)
        if not claimed:
            return 0
        await asyncio.gather(*(self._send_all(claimed[at::CONNECTIONS_MAX], until) for at in range(CONNECTIONS_MAX)))
        return len(claimed)

    async def _send_all(self, dues: Sequence[DueMail], until: float) -> None:
        settings = self._settings
        connection = None if settings.smtp is None else SmtpConnection(settings.smtp, settings.mail_from)
        try:
            for due in dues:
                if asyncio.get_running_loop().time() >= until:
                    await self._put_back(due)
                    continue
                await self._send(due, connection)
        finally:
            if connection is not None:
                await connection.close()

    async def _send(self, due: DueMail, connection: SmtpConnection | None) -> None:
        try:
            ready = await self._prepare(due)
        except DB_UNAVAILABLE:
            raise  # the lease runs out, and the mail is sent again
        except Exception:
            _log.exception("mail_failed_here", mail_id=str(due.mail_id), kind=due.kind)
            await self._retry_later(due, "failed here")
            return
        if isinstance(ready, _NothingToSend):
            await self._settle(due, "failed" if ready.failed else "skipped", trouble=ready.trouble)
            return
        if connection is None:
            await self._catch(ready)
            return
        await self._store_outcome(ready, await connection.send(ready.to, ready.message))

    async def _prepare(self, due: DueMail) -> _ReadyMail | _NothingToSend:
        if due.stopped:
            return _NothingToSend("stopped")
        if due.blocked:
            return _NothingToSend("blocked")
        now = self._context.now()
        seal = self._context.seal
        to = seal.open(due.to_sealed, MAIL_TO, due.mail_id).decode()
        letter = await self._letter(due, to, now)
        if letter is None:
            return _NothingToSend("nothing to say")
        stop_url = None
        if due.charge_id is not None:
            assert due.account_id is not None, "a charge is an account's"
            stop_url = f"{self._settings.app_url}/correio/parar/{stop_token(due.account_id, due.to_hash, seal)}"
        try:
            message = message_bytes(
                letter,
                mail_id=due.mail_id,
                to=to,
                mail_from=self._settings.mail_from,
                now=now,
                stop_url=stop_url,
                logo=await self._logo(due),
                pdf=await self._pdf(due, letter, now) if due.attach_pdf else None,
            )
        except BadAddress:
            return _NothingToSend("address", failed=True)
        return _ReadyMail(due, to, letter.subject, message)

    async def _letter(self, due: DueMail, to: str, now: datetime) -> Letter | None:
        settings = self._settings
        note = None if due.note_sealed is None else self._context.seal.open(due.note_sealed, MAIL_NOTE, due.mail_id)
        if due.kind in ("access", "security"):
            assert note is not None
            return await personal_letter(
                self._context,
                mail_id=due.mail_id,
                account_id=due.account_id,
                kind=due.kind,
                to=to,
                about=note,
                account=due.merchant,
            )
        if due.kind == "notice":
            if due.notice_kind is None or due.event_type is None or due.noticed_at is None or due.facts is None:
                return None
            return notice_letter(
                kind=due.notice_kind,
                event_type=due.event_type,
                at=due.noticed_at,
                facts=due.facts,
                merchant=due.merchant,
                app_url=settings.app_url,
                held_s=settings.webhook_held_s,
            )
        assert due.doc is not None, "charges are never deleted"
        doc = read_doc(due.doc)
        return charge_letter(
            doc,
            kind=due.kind,
            merchant=due.merchant,
            link=f"{settings.app_url}/pagar/{doc.public_id}",
            note=None if note is None else note.decode(),
            about_day=due.about_day,
            now=now,
        )

    async def _logo(self, due: DueMail) -> Logo | None:
        """The merchant's logo, in mails to payers."""
        if due.charge_id is None:
            return None
        async with session(self._context.pool) as conn:
            return await find_logo_shown(conn, account_id=due.account_id)

    async def _pdf(self, due: DueMail, letter: Letter, now: datetime) -> Attached | None:
        """The boleto on paper, while it can be paid; None for a charge that is not a boleto."""
        if not letter.codes or due.charge_id is None or due.account_id is None:
            return None
        context = self._context
        async with session(context.pool) as conn:
            boleto = await boleto_to_print(
                conn,
                due.charge_id,
                Owner(due.account_id, Mode.PRODUCTION),
                seal=context.seal,
                settings=self._settings,
                now=now,
            )
        return None if boleto is None else Attached(boleto.file_name, await self._printer.printed(boleto))

    async def _store_outcome(self, ready: _ReadyMail, outcome: Outcome) -> None:
        due = ready.due
        match outcome:
            case MailSent():
                now = self._context.now()
                await self._settle(due, "sent", subject=ready.subject, sent_at=now)
                _log.info("mail_sent", mail_id=str(due.mail_id), kind=due.kind, attempt=due.attempts)
            case MailRejected(code):
                await self._settle(due, "failed", subject=ready.subject, trouble=code)
                _log.info("mail_refused", mail_id=str(due.mail_id), kind=due.kind, code=code)
            case MailUnknown(detail, ours):
                if ours:
                    _log.warning("mail_server_trouble", detail=detail, attempt=due.attempts)
                await self._retry_later(due, detail)

    async def _retry_later(self, due: DueMail, trouble: str) -> None:
        if due.attempts > len(BACKOFF_S):
            await self._settle(due, "failed", trouble=trouble)
            _log.warning("mail_given_up", mail_id=str(due.mail_id), kind=due.kind, detail=trouble)
            return
        spread = random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - spreads retries, guards nothing
        due_at = self._context.now() + timedelta(seconds=BACKOFF_S[due.attempts - 1] * spread)
        await self._settle(due, "waiting", due_at=due_at, trouble=trouble)

    async def _catch(self, ready: _ReadyMail) -> None:
        now = self._context.now()
        async with transaction(self._context.pool) as conn:
            mail_id = ready.due.mail_id
            message_sealed = self._context.seal.seal(ready.message, CAUGHT_MAIL, mail_id)
            await catch(conn, mail_id=mail_id, now=now, message_sealed=message_sealed)
            await forget_caught(conn, kept=CAUGHT_KEPT)
        await self._settle(ready.due, "sent", subject=ready.subject, sent_at=now)

    async def _put_back(self, due: DueMail) -> None:
        async with session(self._context.pool) as conn:
            await put_back(conn, mail_id=due.mail_id, attempts=due.attempts)

    async def _settle(
        self,
        due: DueMail,
        state: str,
        *,
        due_at: datetime | None = None,
        subject: str | None = None,
        trouble: str | None = None,
        sent_at: datetime | None = None,
    ) -> None:
        async with session(self._context.pool) as conn:
            await settle(
                conn,
                mail_id=due.mail_id,
                attempts=due.attempts,
                state=state,
                due_at=due_at or self._context.now(),
                subject=subject,
                trouble=trouble,
                sent_at=sent_at,
            )
