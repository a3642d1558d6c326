"""Mail an account's owners, the platform's admins, or one person, what was done with money, access or people (contract
section 16).

Written in the transaction that does it, so that nothing is done untold; what the letter says of each kind is in
readmodels/documents/people_letter.py. Everything in it is sealed: addresses of the network, amounts, destinations.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.mail import address_hash
from commands.people.sessions import PLATFORM
from runtime.ids import new_id
from runtime.seal import MAIL_NOTE, MAIL_TO, Seal
from sql import Connection

OWNERS_MAX: Final = 50


class Told(Struct, frozen=True):
    """What a security mail is about: `kind` is one of the letter's, and so are the names of `facts`."""

    kind: str
    at: datetime
    facts: dict[str, str]


add_personal = sql.run("mail.add_personal")
_owners = sql.many("access.owners", str)
_admins = sql.many("access.admins", str)


async def tell_owners(
    conn: Connection, account_id: UUID, kind: str, facts: Mapping[str, str], *, now: datetime, seal: Seal
) -> None:
    """`facts`: who did it (`by`), from where (`from`), and the amount or the masked destination."""
    owners = await _owners(conn, account_id=account_id, limit=OWNERS_MAX)
    await _tell(conn, owners, account_id, Told(kind, now, dict(facts)), seal=seal)


async def tell_admins(conn: Connection, kind: str, facts: Mapping[str, str], *, now: datetime, seal: Seal) -> None:
    """Of this cell."""
    admins = await _admins(conn, limit=OWNERS_MAX)
    await _tell(conn, admins, PLATFORM, Told(kind, now, dict(facts)), seal=seal)


async def tell_person(
    conn: Connection, email: str, account_id: UUID, kind: str, facts: Mapping[str, str], *, now: datetime, seal: Seal
) -> None:
    """About their own access; `account_id` is PLATFORM of staff."""
    await _tell(conn, [email], account_id, Told(kind, now, dict(facts)), seal=seal)


async def _tell(conn: Connection, emails: Sequence[str], account_id: UUID, told: Told, *, seal: Seal) -> None:
    if emails:
        mail_ids = [new_id() for _ in emails]
        await add_personal(
            conn,
            mail_ids=mail_ids,
            account_id=None if account_id == PLATFORM else account_id,
            kind="security",
            to_sealed=[seal.seal(each.encode(), MAIL_TO, id) for id, each in zip(mail_ids, emails, strict=True)],
            to_hashes=[address_hash(email, seal) for email in emails],
            notes_sealed=[seal.seal(msgspec.json.encode(told), MAIL_NOTE, id) for id in mail_ids],
            now=told.at,
        )
