"""The mails caught instead of sent in local work, as a mail program would show them."""

import base64
from datetime import datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from runtime.seal import CAUGHT_MAIL, Seal
from sql import Connection

SHOWN_MAX: Final = 50


class File(Struct, frozen=True):
    name: str
    media_type: str
    content: bytes


class CaughtMail(Struct, frozen=True, kw_only=True):
    mail_id: UUID
    caught_at: datetime
    sender: str
    to: str
    subject: str
    text: str
    html: str
    files: tuple[File, ...]
    stop_url: str | None


class _Row(Struct, frozen=True):
    mail_id: UUID
    caught_at: datetime
    message_sealed: bytes


_find_all = sql.many("mail.caught", _Row)
_find = sql.maybe("mail.caught_one", _Row)


async def caught_mails(conn: Connection, *, seal: Seal) -> list[CaughtMail]:
    """The SHOWN_MAX newest caught mails, newest first."""
    return [_open_mail(row, seal) for row in await _find_all(conn, limit=SHOWN_MAX)]


async def caught_mail(conn: Connection, mail_id: UUID, *, seal: Seal) -> CaughtMail | None:
    row = await _find(conn, mail_id=mail_id)
    return None if row is None else _open_mail(row, seal)


def _open_mail(row: _Row, seal: Seal) -> CaughtMail:
    message = message_from_bytes(seal.open(row.message_sealed, CAUGHT_MAIL, row.mail_id), policy=SMTP)
    assert isinstance(message, EmailMessage), "the policy makes these"
    unsubscribe = message["List-Unsubscribe"]
    return CaughtMail(
        mail_id=row.mail_id,
        caught_at=row.caught_at,
        sender=str(message["From"]),
        to=str(message["To"]),
        subject=str(message["Subject"]),
        text=_body_text(message, "plain"),
        html=_html_with_images(message),
        files=tuple(
            File(part.get_filename() or "", part.get_content_type(), part.get_content())
            for part in message.iter_attachments()
        ),
        stop_url=None if unsubscribe is None else str(unsubscribe).strip("<>"),
    )


def _html_with_images(message: EmailMessage) -> str:
    """The mail's HTML with its attached images in place, as data URIs."""
    page = _body_text(message, "html")
    for part in message.walk():
        name = part["Content-ID"]
        if name is not None:
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes), "an image is no multipart"
            uri = f"data:{part.get_content_type()};base64,{base64.b64encode(content).decode()}"
            page = page.replace(f"cid:{name.strip('<>')}", uri)
    return page


def _body_text(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    if part is None:
        return ""
    content = part.get_content()
    assert isinstance(content, str)
    return content
