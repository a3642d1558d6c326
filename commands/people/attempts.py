"""Rate limits on sign-in attempts: nobody can guess passwords for long, and nobody can lock another person out.

A known browser, in which this person has signed in before or has a session open, counts only its own attempts, so the
attempts of strangers do not matter there. For any other browser:

    one e-mail from one address     ten in a quarter of an hour, then refused
    one address, whatever e-mail    fifty, then refused: a whole office may share one
    one e-mail, whatever address    ten at once; then the next one waits, 1 s, 2 s, 4 s, up to a minute, until a quarter
                                    of an hour has passed without any

So a thousand machines together try one e-mail once a minute. A person who knows the password waits that long at most,
or uses a known browser, or follows a mailed link, which makes the browser a known one.

The counts are rows in PostgreSQL under keyed fingerprints: they hold across all processes and reveal no e-mail. Redis
plays no part. Without PostgreSQL nobody signs in; after a restore the counts are those of the backup.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

import sql
from domain.client_address import client_group
from domain.errors import Code, Refused
from runtime.seal import Seal
from sql import Connection

WINDOW: Final = timedelta(minutes=15)
EMAIL_ATTEMPTS: Final = 10
"""Attempts at one e-mail: from one address, from one known browser, and from all addresses before the waits begin."""
ADDRESS_ATTEMPTS: Final = 50
GAP_MAX: Final = timedelta(minutes=1)
CODE_WINDOW: Final = timedelta(hours=24)
CODE_ATTEMPTS: Final = 10
"""Attempts at a six-digit code, of which three in a million are right at any time: an attacker who has the password
succeeds with a chance of one in ninety a year. Recovery codes are 60 random bits and are counted like passwords."""
LINK_WINDOW: Final = timedelta(hours=1)
LINKS: Final = 4
"""Mails with a link to one e-mail in LINK_WINDOW."""
LINK_ADDRESS: Final = 20
"""Links requested from one address in LINK_WINDOW."""
INVITE_WINDOW: Final = timedelta(hours=24)
INVITES: Final = 60
"""Mails with an invitation or a link that the owners of one account have sent in INVITE_WINDOW."""


class _Attempts(Struct, frozen=True):
    attempts: int
    until: datetime


_take_attempt = sql.one("session.take_attempt", _Attempts)
_take_turn = sql.maybe("session.take_turn", int)
_next_turn = sql.maybe("session.next_turn", datetime)
_give_attempts_back = sql.run("session.give_back")
_reset_attempts = sql.run("session.reset_attempts")
_forget_attempts = sql.run("session.forget_attempts")


async def take_attempt(
    conn: Connection, email: str, address: str, *, now: datetime, seal: Seal, device: str | None = None
) -> None:
    """Count one attempt; Refused(RATE_LIMITED) when it may not be made now. `device` is the unguessable name of a
    browser that is known for this e-mail.

    Call it outside a transaction, so that a refused attempt stays counted.
    """
    await _forget_attempts(conn, now=now)
    if device is not None:
        await _count_attempt(conn, _device_subject(email, device, seal), EMAIL_ATTEMPTS, WINDOW, now=now)
        return
    # The address first: an address that has used up its attempts then writes no more rows for e-mails.
    await _count_attempt(conn, _address_subject(address, seal), ADDRESS_ATTEMPTS, WINDOW, now=now)
    await _count_attempt(conn, _pair_subject(email, address, seal), EMAIL_ATTEMPTS, WINDOW, now=now)
    subject = _email_subject(email, seal)
    turn = await _take_turn(
        conn, subject=subject, now=now, until=now + WINDOW, free=EMAIL_ATTEMPTS, gap_max_s=GAP_MAX.total_seconds()
    )
    if turn is None:
        # No password was checked, so a person who is told to wait uses up no attempt.
        await _give_attempts_back(conn, subjects=[_address_subject(address, seal), _pair_subject(email, address, seal)])
        next_at = await _next_turn(conn, subject=subject)
        raise _rate_limited(next_at or now, now)


async def take_code_attempt(conn: Connection, email: str, *, now: datetime, seal: Seal) -> None:
    """Count one attempt at a six-digit code of this person; Refused(RATE_LIMITED) after CODE_ATTEMPTS in CODE_WINDOW.

    Call it outside a transaction. A right code resets the count (`reset_attempts`).
    """
    await _count_attempt(conn, _code_subject(email, seal), CODE_ATTEMPTS, CODE_WINDOW, now=now)


async def take_link(conn: Connection, email: str, address: str, *, now: datetime, seal: Seal) -> bool:
    """Count one requested link; returns whether a mail may be written. Refused(RATE_LIMITED) when too many were
    requested from this address. The limit of the e-mail is not revealed, because it may be another person's."""
    await _forget_attempts(conn, now=now)
    await _count_attempt(conn, seal.blind(f"link address {client_group(address)}"), LINK_ADDRESS, LINK_WINDOW, now=now)
    subject = seal.blind(f"link e-mail {email}")
    return (await _take_attempt(conn, subject=subject, now=now, until=now + LINK_WINDOW)).attempts <= LINKS


async def take_invite(conn: Connection, account_id: object, *, now: datetime, seal: Seal) -> None:
    """Count one mail to a person of this account's choosing; Refused(RATE_LIMITED) after INVITES in INVITE_WINDOW."""
    await _count_attempt(conn, seal.blind(f"invite {account_id}"), INVITES, INVITE_WINDOW, now=now)


async def reset_attempts(
    conn: Connection, email: str, address: str, *, seal: Seal, device: str | None = None, code: bool = False
) -> None:
    """Reset the e-mail's attempts after a right password, and take back one attempt of the address. `code` resets the
    attempts at codes too: the code was right, or the person has no second factor."""
    subjects = [_email_subject(email, seal), _pair_subject(email, address, seal)]
    if device is not None:
        # A sign-in from a known browser does not reset the attempts of strangers elsewhere.
        subjects = [_device_subject(email, device, seal)]
    if code:
        subjects.append(_code_subject(email, seal))
    address_subject = _address_subject(address, seal) if device is None else ""
    await _reset_attempts(conn, email_subjects=subjects, address_subject=address_subject)


async def _count_attempt(conn: Connection, subject: str, limit: int, window: timedelta, *, now: datetime) -> None:
    counted = await _take_attempt(conn, subject=subject, now=now, until=now + window)
    if counted.attempts > limit:
        raise _rate_limited(counted.until, now)


def _rate_limited(until: datetime, now: datetime) -> Refused:
    return Refused(Code.RATE_LIMITED, retry_after_s=max(1, int((until - now).total_seconds()) + 1))


def _email_subject(email: str, seal: Seal) -> str:
    return seal.blind(f"sign-in e-mail {email}")


def _pair_subject(email: str, address: str, seal: Seal) -> str:
    return seal.blind(f"sign-in e-mail {email} address {client_group(address)}")


def _device_subject(email: str, device: str, seal: Seal) -> str:
    return seal.blind(f"sign-in e-mail {email} device {device}")


def _code_subject(email: str, seal: Seal) -> str:
    return seal.blind(f"sign-in code {email}")


def _address_subject(address: str, seal: Seal) -> str:
    return seal.blind(f"sign-in address {client_group(address)}")
