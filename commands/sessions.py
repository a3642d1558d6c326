"""Sign people in to the dashboard, know them again, and let them go.

What the browser keeps is 256 random bits; what is kept here is their hash. A session ends after 12 hours without a
page, and after seven days in any case.
"""

import hashlib
import hmac
import ipaddress
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct

import sql
from domain.errors import Code, Refused
from runtime.seal import Seal
from sql import Connection

IDLE = timedelta(hours=12)
LIFETIME = timedelta(days=7)
SESSIONS_MOST = 20
"""Of one person; the oldest makes room."""
WINDOW = timedelta(minutes=15)
EMAIL_ATTEMPTS = 10
ADDRESS_ATTEMPTS = 50
"""More than for an e-mail: behind one address there may be a whole office."""
EMAIL_MOST = 254
PASSWORD_MOST = 200

_SEEN_EVERY = timedelta(minutes=1)
_MEMORY_MOST = 64 * 1024 * 1024
# Of no password: whoever names an unknown e-mail waits as long as everybody else.
_NOBODY = f"scrypt$14$8$1${bytes(16).hex()}${bytes(64).hex()}"


class Session(Struct, frozen=True):
    """Who asks for a page, as he is at this moment."""

    seen_at: datetime
    email: str
    role: str
    account_id: UUID
    name: str
    """The account's."""
    kyc: str


class Person(Struct, frozen=True):
    email: str
    account_id: UUID
    password_hash: str


class _Attempts(Struct, frozen=True):
    attempts: int
    until: datetime


class _Counted(Struct, frozen=True):
    sessions: int


_take_attempt = sql.one("session.take_attempt", _Attempts)
_forgive = sql.run("session.forgive")
_forget_attempts = sql.run("session.forget_attempts")
_person = sql.maybe("session.person", Person)
_open = sql.run("session.open")
_find = sql.maybe("session.find", Session)
_touch = sql.run("session.touch")
_count = sql.one("session.count", _Counted)
_end = sql.run("session.end")
_end_all = sql.run("session.end_all")


async def take_attempt(conn: Connection, email: str, address: str, *, now: datetime, seal: Seal) -> None:
    """One attempt of this e-mail and this address; Refused(RATE_LIMITED) when either has had enough of them.

    Not inside a transaction: an attempt that is refused has counted all the same.
    """
    await _forget_attempts(conn, now=now)
    # The address first: who has used its attempts up writes no rows for e-mails any more.
    for subject, most in ((_of_address(address, seal), ADDRESS_ATTEMPTS), (_of_email(email, seal), EMAIL_ATTEMPTS)):
        taken = await _take_attempt(conn, subject=subject, now=now, until=now + WINDOW)
        if taken.attempts > most:
            raise Refused(Code.RATE_LIMITED, retry_after_s=max(1, int((taken.until - now).total_seconds()) + 1))


async def find_person(conn: Connection, email: str) -> Person | None:
    return await _person(conn, email=email)


def password_is_right(password: str, person: Person | None) -> bool:
    """Some 50 ms of work and 16 MiB, for nobody too. Call it from a thread."""
    kind, log_n, r, p, salt, digest = (_NOBODY if person is None else person.password_hash).split("$")
    assert kind == "scrypt"
    wanted = bytes.fromhex(digest)
    found = hashlib.scrypt(
        password.encode(), salt=bytes.fromhex(salt), n=2 ** int(log_n), r=int(r), p=int(p),
        maxmem=_MEMORY_MOST, dklen=len(wanted),
    )  # fmt: skip
    return hmac.compare_digest(found, wanted) and person is not None


async def open_session(
    conn: Connection, person: Person, address: str, *, now: datetime, chance: bytes, seal: Seal
) -> str:
    """The cookie of a new session made of 32 bytes of `chance`; the person's password was right."""
    assert len(chance) == 32
    await _forgive(conn, email_subject=_of_email(person.email, seal), address_subject=_of_address(address, seal))
    await _open(
        conn,
        session_hash=hashlib.sha256(chance).digest(),
        email=person.email,
        now=now,
        most=SESSIONS_MOST,
        born_before=now - LIFETIME,
    )
    return chance.hex()


async def session_of(conn: Connection, cookie: str, *, now: datetime) -> Session | None:
    """Whose cookie this is; None when it is nobody's, or its time is over."""
    session_hash = hash_of(cookie)
    if session_hash is None:
        return None
    found = await _find(conn, session_hash=session_hash, seen_after=now - IDLE, born_after=now - LIFETIME)
    if found is not None and found.seen_at <= now - _SEEN_EVERY:
        await _touch(conn, session_hash=session_hash, now=now)
    return found


async def count_sessions(conn: Connection, email: str, *, now: datetime) -> int:
    return (await _count(conn, email=email, seen_after=now - IDLE, born_after=now - LIFETIME)).sessions


async def end_session(conn: Connection, cookie: str) -> None:
    session_hash = hash_of(cookie)
    if session_hash is not None:
        await _end(conn, session_hash=session_hash)


async def end_all_sessions(conn: Connection, email: str) -> None:
    await _end_all(conn, email=email)


def hash_of(cookie: str) -> bytes | None:
    """What a cookie is kept as; None for what is no cookie of ours."""
    if len(cookie) != 64 or not all(each in "0123456789abcdef" for each in cookie):
        return None
    return hashlib.sha256(bytes.fromhex(cookie)).digest()


def _of_email(email: str, seal: Seal) -> str:
    return seal.blind(f"sign-in e-mail {email}")


def _of_address(address: str, seal: Seal) -> str:
    """An IPv6 customer has a whole /64 to try from: it counts as one address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return seal.blind(f"sign-in address {address}")
    if parsed.version == 6:
        address = str(ipaddress.ip_network((parsed, 64), strict=False))
    return seal.blind(f"sign-in address {address}")
