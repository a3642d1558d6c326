"""Sessions of people in the dashboard: open, look up, end. Attempts are counted in commands/people/attempts.py.

The cookie is 32 bytes: 244 random bits, and the number of its cell; only its hash is stored. A session ends after 12
hours without a request, and after seven days in any case.

Merchants' people and the platform's staff are separate: a session of one side is not valid on the other.
"""

import hashlib
from datetime import datetime, timedelta
from enum import Enum
from uuid import UUID

from msgspec import Struct

import sql
from runtime.cells.number import marked
from runtime.passwords import matches_hash
from sql import Connection

IDLE = timedelta(hours=12)
LIFETIME = timedelta(days=7)
SESSIONS_MAX = 20
"""Sessions of one person; a new one ends the oldest."""
PASSWORD_MAX = 200

_TOUCH_INTERVAL = timedelta(minutes=1)


class Side(Enum):
    MERCHANTS = "merchants"
    STAFF = "staff"


class Session(Struct, frozen=True):
    """The person behind a request, as stored now; `account_id` is PLATFORM for staff."""

    seen_at: datetime
    proved_at: datetime
    """When the password, and the code where a second factor is on, was last given in this session."""
    email: str
    role: str
    role_given_at: datetime | None
    """For staff: when another member of staff gave the role; None when the operator did (domain/merchants/staff.py)."""
    account_id: UUID
    name: str
    """The account's name."""
    kyc: str
    second_factor: bool
    ahead_s: int
    """By how much the account's sandbox is ahead of real time."""


class Person(Struct, frozen=True):
    """A person who signs in. `password_hash` is None before a password was chosen, `totp_sealed` without a second
    factor."""

    email: str
    account_id: UUID
    password_hash: str | None
    totp_sealed: bytes | None


_find_person = sql.maybe("session.person", Person)
_insert_session = sql.run("session.open")
_find_session = sql.maybe("session.find", Session)
_find_email = sql.maybe("session.person_of", str)
_touch = sql.run("session.touch")
_prove = sql.run("session.prove")
_count = sql.one("session.count", int)
_end = sql.run("session.end")
_end_all = sql.run("session.end_all")
_end_others = sql.run("session.end_others")


async def find_person(conn: Connection, email: str, side: Side) -> Person | None:
    return await _find_person(conn, email=email, staff=side is Side.STAFF)


def password_is_right(password: str, person: Person | None) -> bool:
    """Whether the password is the person's. Takes some 20 ms and 19 MiB, also for an unknown person; call it from a
    thread."""
    return matches_hash(password, None if person is None else person.password_hash)


async def open_session(conn: Connection, person: Person, *, now: datetime, chance: bytes) -> str:
    """Open a session after the password and the code were right; returns its cookie, made of the 32 bytes `chance`."""
    assert len(chance) == 32
    chance = marked(chance)
    await _insert_session(
        conn,
        session_hash=hashlib.sha256(chance).digest(),
        email=person.email,
        now=now,
        limit=SESSIONS_MAX,
        born_before=now - LIFETIME,
    )
    return chance.hex()


async def session_of(conn: Connection, cookie: str, side: Side, *, now: datetime) -> Session | None:
    """Returns the session of this cookie; None when there is none, or it has ended."""
    session_hash = hash_of(cookie)
    if session_hash is None:
        return None
    session = await _find_session(
        conn,
        session_hash=session_hash,
        staff=side is Side.STAFF,
        seen_after=now - IDLE,
        born_after=now - LIFETIME,
    )
    if session is not None and session.seen_at <= now - _TOUCH_INTERVAL:
        await _touch(conn, session_hash=session_hash, now=now)
    return session


async def person_of_session(conn: Connection, cookie: str) -> str | None:
    """Returns the e-mail of the merchant's person whose session this is or, if it ended by time, was; None for a
    session that was ended by signing out or by a new password."""
    return await _find_email(conn, session_hash=hash_of(cookie) or b"")


async def prove_session(conn: Connection, cookie: str, *, now: datetime) -> None:
    """Note that the password, and the code, was given again in the session of `cookie`."""
    await _prove(conn, session_hash=hash_of(cookie) or b"", now=now)


async def count_sessions(conn: Connection, email: str, *, now: datetime) -> int:
    return await _count(conn, email=email, seen_after=now - IDLE, born_after=now - LIFETIME)


async def end_session(conn: Connection, cookie: str) -> None:
    session_hash = hash_of(cookie)
    if session_hash is not None:
        await _end(conn, session_hash=session_hash)


async def end_all_sessions(conn: Connection, email: str) -> None:
    await _end_all(conn, email=email)


async def end_other_sessions(conn: Connection, email: str, cookie: str) -> None:
    """End all sessions of this person but that of `cookie`."""
    await _end_others(conn, email=email, kept=hash_of(cookie) or b"")


def hash_of(cookie: str) -> bytes | None:
    """Returns the hash under which the cookie is stored; None for text that does not have the form of our cookies."""
    if len(cookie) != 64 or not all(each in "0123456789abcdef" for each in cookie):
        return None
    return hashlib.sha256(bytes.fromhex(cookie)).digest()
