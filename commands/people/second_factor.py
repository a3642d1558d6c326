"""The second factor at sign-in: a time-based code (TOTP, RFC 6238), and ten recovery codes for a lost device.

The secret is sealed together with its person's e-mail, so that a sealed secret copied to another row is refused.
Recovery codes are stored as keyed fingerprints. A code works once: the person's row holds the time step of the last
accepted code and is changed under its lock.
"""

from base64 import b32encode
from datetime import datetime
from enum import Enum

from msgspec import Struct

import sql
from domain.errors import Code, Refused
from domain.totp import DIGITS, SECRET_BYTES, step_of
from runtime.seal import TOTP, Seal
from sql import Connection

RECOVERY_CODES = 10
RECOVERY_CHANCE = 8 * RECOVERY_CODES
"""Random bytes that `enrol` takes."""
_RECOVERY_LETTERS = 12  # 60 bits


class AcceptedCode(Enum):
    """The kind of code that was accepted."""

    CODE = "code"
    RECOVERY = "recovery"


class LockedPerson(Struct, frozen=True):
    totp_sealed: bytes | None
    totp_step: int


lock_person = sql.maybe("people.lock_person", LockedPerson)
"""`email`: locks and returns the person's row."""
_set_factor = sql.run("people.set_second_factor")
clear = sql.run("people.clear_second_factor")
"""`email`: remove the second factor and its recovery codes."""
_take_step = sql.run("people.take_step")
_forget_recovery = sql.run("people.forget_recovery_codes")
_add_recovery = sql.run("people.add_recovery_codes")
_take_recovery = sql.maybe("people.take_recovery_code", str)


def seal_secret(email: str, secret: bytes, seal: Seal) -> bytes:
    assert len(secret) == SECRET_BYTES
    return seal.seal(secret, TOTP, email)


def open_secret(email: str, sealed: bytes, seal: Seal) -> bytes:
    """Returns the person's secret. Raises InvalidTag when it was sealed for another person, or not with this key."""
    return seal.open(sealed, TOTP, email)


async def enrol(
    conn: Connection, email: str, secret: bytes, code: str, *, now: datetime, seal: Seal, chance: bytes
) -> list[str]:
    """Turn the second factor on with a first code; returns the recovery codes, which are shown once.

    Refused(VALIDATION_ERROR) with fields.code when the code is wrong, with fields.totp when a second factor is on,
    because the password alone must not suffice to replace it.
    """
    assert len(chance) == RECOVERY_CHANCE
    person = await lock_person(conn, email=email)
    if person is None or person.totp_sealed is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={"totp": "is on already"})
    step = step_of(secret, plain_code(code), now=now, after=0)
    if step is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"code": "is not this moment's code"})
    await _set_factor(conn, email=email, sealed=seal_secret(email, secret, seal), now=now, step=step)
    codes = [_recovery_code(chance[at : at + 8]) for at in range(0, RECOVERY_CHANCE, 8)]
    await _forget_recovery(conn, email=email)
    await _add_recovery(conn, email=email, code_hashes=[_recovery_hash(email, each, seal) for each in codes])
    return codes


async def take_code(conn: Connection, email: str, given: str, *, now: datetime, seal: Seal) -> AcceptedCode | None:
    """Accept a code or a recovery code, once; None when it is wrong, was used, or this person has no second factor."""
    person = await lock_person(conn, email=email)
    if person is None or person.totp_sealed is None:
        return None
    if is_digits(given):
        step = step_of(open_secret(email, person.totp_sealed, seal), plain_code(given), now=now, after=person.totp_step)
        if step is None:
            return None
        await _take_step(conn, email=email, step=step)
        return AcceptedCode.CODE
    if await _take_recovery(conn, email=email, code_hash=_recovery_hash(email, given, seal)) is None:
        return None
    return AcceptedCode.RECOVERY


def is_digits(given: str) -> bool:
    """Whether this is an attempt at a time-based code (and not at a recovery code)."""
    plain = plain_code(given)
    return len(plain) <= DIGITS or (plain.isascii() and plain.isdigit())


def plain_code(given: str) -> str:
    """Returns the code without the blanks and hyphens that people type, in capitals."""
    return given.replace(" ", "").replace("-", "").upper()


def _recovery_code(chance: bytes) -> str:
    letters = b32encode(chance).decode()[:_RECOVERY_LETTERS]
    return "-".join(letters[at : at + 4] for at in range(0, _RECOVERY_LETTERS, 4))


def _recovery_hash(email: str, code: str, seal: Seal) -> str:
    return seal.blind(f"recovery code {email} {plain_code(code)}")
