"""The mails that a worker would have sent to an address, caught, so that tests can follow their links."""

import re
from datetime import datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

import msgspec

from commands.mail import address_hash
from runtime.postgres import Pool
from runtime.seal import CAUGHT_MAIL, Seal
from runtime.settings import Settings
from workers.context import Context
from workers.mail.sender import MailSender

_ROUNDS_MAX = 50
_CAUGHT = """
SELECT c.mail_id, c.message_sealed FROM caught_mail c JOIN mail m ON m.mail_id = c.mail_id
WHERE m.to_hash = $1 ORDER BY m.created_at, m.mail_id
"""
# The mails of other tests are postponed, because they are sealed with other keys.
_DUE_FOR_ADDRESS = """
UPDATE mail SET due_at = CASE WHEN to_hash = $1 THEN $2::timestamptz ELSE 'infinity' END WHERE state = 'waiting'
"""
_LINK = re.compile(r"(/(?:painel|plataforma)/recuperar/[A-Za-z0-9_-]{43})")


async def letters_to(pool: Pool, settings: Settings, email: str, *, now: datetime) -> list[EmailMessage]:
    """Send the mails due at `now`, as a worker does; returns all mails that this address ever got, oldest first."""
    seal = Seal(settings.secret_key)
    catching = msgspec.structs.replace(settings, mail_catcher=True)
    nothing = cast(Any, None)
    context = Context(
        settings=catching, pool=pool, redis=nothing, jobs=nothing, seal=seal, banks=nothing,
        now=lambda: now, worker="test",
    )  # fmt: skip
    await pool.execute(_DUE_FOR_ADDRESS, address_hash(email, seal), now)
    sender = MailSender(context)
    for _ in range(_ROUNDS_MAX):
        if not await sender.drain():
            break
    rows = await pool.fetch(_CAUGHT, address_hash(email, seal))
    return [
        cast(
            EmailMessage,
            message_from_bytes(
                seal.open(row["message_sealed"], CAUGHT_MAIL, row["mail_id"]), policy=cast(Any, default)
            ),
        )
        for row in rows
    ]


def plain_text_of(letter: EmailMessage) -> str:
    part = letter.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def link_of(letter: EmailMessage) -> str:
    """The path of the one-time link in a mail."""
    found = set(_LINK.findall(plain_text_of(letter)))
    assert len(found) == 1, plain_text_of(letter)
    return str(found.pop())


async def mailed_link(pool: Pool, settings: Settings, email: str, *, now: datetime) -> str:
    """The path of the one-time link in the latest mail that has one."""
    letters = [each for each in await letters_to(pool, settings, email, now=now) if _LINK.search(plain_text_of(each))]
    assert letters, f"no link was mailed to {email}"
    return link_of(letters[-1])
