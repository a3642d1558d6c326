"""One-time links by which people choose a password, for their first sign-in or to recover access.

A link is requested for an e-mail and made by a worker when its mail is sent. So the person who requests it cannot learn
whether the e-mail is in use, neither from the answer nor from its duration. The link's token is derived from the mail's
id under SECRET_KEY, and only its hash is stored. The link is valid once, for half an hour after the mail is sent.
Choosing a password ends all links and all sessions of the person; a second factor stays on.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.mail import address_hash
from commands.people.invitations import INVITED, Invitation, find_invitation, latest_invitation, withdraw
from commands.people.people import add_person, change_password, check_name, set_name
from commands.people.sessions import end_all_sessions
from commands.people.tell import add_personal, mail_admins, mail_owners, mail_person
from domain.merchants.staff import PLATFORM
from runtime.cells.number import marked
from runtime.ids import new_id
from runtime.seal import MAIL_NOTE, MAIL_TO, Seal
from sql import Connection

HOLDS: Final = timedelta(minutes=30)
_RETENTION: Final = timedelta(days=7)
"""How long links are kept after their expiry: longer than a mail is retried, so that no retry renews a used link."""


class LinkPurpose(Struct, frozen=True):
    """The purpose of a mail with a link. `account_id` is the account of an invitation, or None for a password recovery.
    An invitation is mailed even to an e-mail that signs in to another account, to say so."""

    account_id: UUID | None = None


class LinkHolder(Struct, frozen=True, kw_only=True):
    """The person a sign-in link is sent to. `account_id` is PLATFORM for staff; `fresh`: no password was chosen yet."""

    email: str
    account_id: UUID
    account: str
    role: str
    name: str | None
    fresh: bool


class NewLink(Struct, frozen=True, kw_only=True):
    """The content of a mail with a link. `token` is None for an invitation to an e-mail that already signs in to
    another account."""

    token: str | None
    holder: LinkHolder
    invited_by: str | None = None


class _Person(Struct, frozen=True):
    email: str
    name: str | None
    role: str
    account_id: UUID | None
    fresh: bool
    account: str


class _Link(Struct, frozen=True):
    email: str
    account_id: UUID | None


find_person = sql.maybe("access.person", _Person)
"""`email`: finds merchants' people and staff alike."""
_store_link = sql.maybe("access.store", UUID)
_forget_expired = sql.run("access.forget")
_find_link = sql.maybe("access.find", _Link)
_use_link = sql.maybe("access.use", _Link)
end_links = sql.run("access.end_links")
"""`email, now`: ends all links of this e-mail."""


async def ask_for_link(
    conn: Connection, email: str, *, invited_to: UUID | None = None, now: datetime, seal: Seal
) -> None:
    """Have a link mailed to this e-mail if it belongs to a person. The work is the same if it does not, so that the
    duration reveals nothing."""
    mail_id = new_id()
    await add_personal(
        conn,
        mail_ids=[mail_id],
        account_id=invited_to,
        kind="access",
        to_sealed=[seal.seal(email.encode(), MAIL_TO, mail_id)],
        to_hashes=[address_hash(email, seal)],
        notes_sealed=[seal.seal(msgspec.json.encode(LinkPurpose(invited_to)), MAIL_NOTE, mail_id)],
        now=now,
    )


async def make_link(
    conn: Connection, link_id: UUID, email: str, asked: LinkPurpose, *, now: datetime, seal: Seal
) -> NewLink | None:
    """Make the link of the mail that is being sent now; None when the e-mail belongs to no person and is not invited,
    or when this link was used."""
    await _forget_expired(conn, before=now - _RETENTION)
    person = await find_person(conn, email=email)
    if asked.account_id is None and person is not None:
        return await _new_link(conn, link_id, _holder_from_person(person), None, now=now, seal=seal)
    since = now - INVITED
    if asked.account_id is None:
        # An invited person whose link has expired may request a new one, which serves as well as the first.
        invitation = await latest_invitation(conn, email=email, since=since)
    else:
        invitation = await find_invitation(conn, account_id=asked.account_id, email=email, since=since)
    if invitation is None:
        return None
    if person is not None:
        return NewLink(token=None, holder=_holder_from_invitation(invitation))
    return await _new_link(conn, link_id, _holder_from_invitation(invitation), invitation, now=now, seal=seal)


async def link_holder(conn: Connection, token: str, *, now: datetime) -> LinkHolder | None:
    """Returns the person the link is for; None for a link that does not exist, was used, or has expired."""
    token_hash = _token_hash(token)
    link = None if token_hash is None else await _find_link(conn, token_hash=token_hash, now=now)
    return None if link is None else await _find_holder(conn, link, now=now)


async def use_link(
    conn: Connection, token: str, password_hash: str, name: str | None, *, now: datetime, seal: Seal
) -> LinkHolder | None:
    """Set the password of the person the link is for, or add the invited person; None as for `link_holder`.

    `name` is given by a person whose name is not known yet. Refused(VALIDATION_ERROR) with fields.name when it is
    invalid, with fields.email when the e-mail signs in to another account by now, with fields.limit when the account is
    full; the caller must then roll back, and the link stays valid.
    """
    token_hash = _token_hash(token)
    link = None if token_hash is None else await _use_link(conn, token_hash=token_hash, now=now)
    holder = None if link is None else await _find_holder(conn, link, now=now)
    if link is None or holder is None:
        return None
    email, account_id = holder.email, holder.account_id
    if link.account_id is None:
        if holder.name is None and name is not None:
            check_name(name)
            await set_name(conn, email=email, name=name)
        await change_password(conn, email, password_hash)
        await end_all_sessions(conn, email)
        if not holder.fresh:
            await mail_person(conn, email, account_id, "password.recovered", {}, now=now, seal=seal)
    else:
        if await withdraw(conn, account_id=account_id, email=email) is None:
            return None  # the invitation was withdrawn since it was read
        await add_person(conn, account_id, email, holder.role, password_hash, name=holder.name, now=now)
    if holder.fresh:
        facts = {"person": email, "name": holder.name or name or "", "role": holder.role}
        if account_id == PLATFORM:
            await mail_admins(conn, "staff.joined", facts, now=now, seal=seal)
        else:
            await mail_owners(conn, account_id, "person.joined", facts, now=now, seal=seal)
    await end_links(conn, email=email, now=now)
    return holder


async def _find_holder(conn: Connection, link: _Link, *, now: datetime) -> LinkHolder | None:
    if link.account_id is None:
        person = await find_person(conn, email=link.email)
        return None if person is None else _holder_from_person(person)
    invitation = await find_invitation(conn, account_id=link.account_id, email=link.email, since=now - INVITED)
    return None if invitation is None else _holder_from_invitation(invitation)


async def _new_link(
    conn: Connection, link_id: UUID, holder: LinkHolder, invitation: Invitation | None, *, now: datetime, seal: Seal
) -> NewLink | None:
    raw = marked(hmac.new(seal.key("access link"), link_id.bytes, sha256).digest())
    stored = await _store_link(
        conn,
        link_id=link_id,
        token_hash=sha256(raw).digest(),
        email=holder.email,
        account_id=None if invitation is None else invitation.account_id,
        expires_at=now + HOLDS,
    )
    if stored is None:
        return None
    return NewLink(
        token=urlsafe_b64encode(raw).decode().rstrip("="),
        holder=holder,
        invited_by=None if invitation is None else invitation.invited_by,
    )


def _holder_from_person(person: _Person) -> LinkHolder:
    return LinkHolder(
        email=person.email,
        account_id=person.account_id or PLATFORM,
        account=person.account,
        role=person.role,
        name=person.name,
        fresh=person.fresh,
    )


def _holder_from_invitation(invitation: Invitation) -> LinkHolder:
    return LinkHolder(
        email=invitation.email,
        account_id=invitation.account_id,
        account=invitation.account,
        role=invitation.role,
        name=invitation.name,
        fresh=True,
    )


def _token_hash(token: str) -> bytes | None:
    """Returns the hash under which the link is stored; None for text that does not have the form of our tokens."""
    if len(token) != 43 or not token.isascii():
        return None
    try:
        return sha256(urlsafe_b64decode(token + "=")).digest()
    except (Base64Error, ValueError):
        return None
