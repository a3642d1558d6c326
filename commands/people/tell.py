"""Mail an account's owners, the platform's admins, or one person about changes of money, access or people (contract
section 16).

The mail is written in the transaction of the change, so that no change goes without one; its text for each kind is in
readmodels/documents/people_letter.py. Its whole content is sealed: IP addresses, amounts, destinations.

Nobody can unsubscribe. Actions that need no password can be repeated quickly, so one address gets at most A_DAY_MAX
mails of each such kind a day, and the last mail says that it is the last. Actions that move money or admit people are
always mailed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import sql
from commands.mail import address_hash
from commands.people.people import PEOPLE_MAX
from commands.people.staff import STAFF_MAX
from domain.merchants.staff import PLATFORM
from runtime.ids import new_id
from runtime.seal import MAIL_NOTE, MAIL_TO, Seal
from sql import Connection

A_DAY_MAX: Final = 20
_DAY: Final = timedelta(hours=24)
_BOUNDED: Final = frozenset({
    "session.new_device", "session.new_place", "password.changed", "password.recovered", "factor.on", "factor.off",
    "credential.created", "credential.rotated", "webhook.registered", "webhook.moved", "webhook.rotated",
    "webhook.removed",
})  # fmt: skip


class SecurityMail(Struct, frozen=True, omit_defaults=True):
    """The content of a security mail. The mail's template knows each `kind` and the names of its `facts`. `last`: this
    address gets no more mails of this kind today."""

    kind: str
    at: datetime
    facts: dict[str, str]
    last: bool = False


class _MailCount(Struct, frozen=True):
    subject: str
    attempts: int


add_personal = sql.run("mail.add_personal")
_find_owners = sql.many("access.owners", str)
_find_admins = sql.many("access.admins", str)
_count_mails = sql.many("session.take_attempts", _MailCount)


async def mail_owners(
    conn: Connection, account_id: UUID, kind: str, facts: Mapping[str, str], *, now: datetime, seal: Seal
) -> None:
    """Mail the owners of the account. `facts` has the person (`by`), the place (`from`), and the amount or the masked
    destination."""
    owners = await _find_owners(conn, account_id=account_id, limit=PEOPLE_MAX)
    await _mail_people(conn, owners, account_id, SecurityMail(kind, now, dict(facts)), seal=seal)


async def mail_admins(conn: Connection, kind: str, facts: Mapping[str, str], *, now: datetime, seal: Seal) -> None:
    """Mail the platform's admins of this cell."""
    admins = await _find_admins(conn, limit=STAFF_MAX)
    await _mail_people(conn, admins, PLATFORM, SecurityMail(kind, now, dict(facts)), seal=seal)


async def mail_person(
    conn: Connection, email: str, account_id: UUID, kind: str, facts: Mapping[str, str], *, now: datetime, seal: Seal
) -> None:
    """Mail one person about their own access; `account_id` is PLATFORM for staff."""
    await _mail_people(conn, [email], account_id, SecurityMail(kind, now, dict(facts)), seal=seal)


async def _mail_people(
    conn: Connection, emails: Sequence[str], account_id: UUID, mail: SecurityMail, *, seal: Seal
) -> None:
    if mail.kind in _BOUNDED:
        counts = await _mails_by_address(conn, emails, mail, seal=seal)
        emails = [each for each in emails if counts[each] <= A_DAY_MAX]
        notes = [replace(mail, last=counts[each] == A_DAY_MAX) for each in emails]
    else:
        notes = [mail for _ in emails]
    if emails:
        mail_ids = [new_id() for _ in emails]
        await add_personal(
            conn,
            mail_ids=mail_ids,
            account_id=None if account_id == PLATFORM else account_id,
            kind="security",
            to_sealed=[seal.seal(each.encode(), MAIL_TO, id) for id, each in zip(mail_ids, emails, strict=True)],
            to_hashes=[address_hash(email, seal) for email in emails],
            notes_sealed=[
                seal.seal(msgspec.json.encode(note), MAIL_NOTE, id) for id, note in zip(mail_ids, notes, strict=True)
            ],
            now=mail.at,
        )


async def _mails_by_address(
    conn: Connection, emails: Sequence[str], mail: SecurityMail, *, seal: Seal
) -> dict[str, int]:
    """Returns how many mails of this kind each address gets in a day, this one included."""
    subjects = {seal.blind(f"told {mail.kind} {email}"): email for email in emails}
    counted = await _count_mails(conn, subjects=sorted(subjects), now=mail.at, until=mail.at + _DAY)
    return {subjects[each.subject]: each.attempts for each in counted}
