"""A letter as an e-mail message: plain text and HTML of the same content, with the boleto attached."""

from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Final
from uuid import UUID

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import Struct

from readmodels.documents.logo import Logo
from readmodels.documents.mail_letter import Letter

_SUBJECT_MAX: Final = 200
_RULE_CHARS: Final = 72
LOGO_ID: Final = "logo"
"""The Content-ID by which a message's HTML refers to the attached image (RFC 2392). Nothing is loaded from a server, so
opening a mail is not reported to anyone."""

_html_template = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
).get_template("mail_letter.html")


class BadAddress(ValueError):
    """The given address cannot be used in a message."""


class Attached(Struct, frozen=True):
    file_name: str
    content: bytes


def message_bytes(
    letter: Letter,
    *,
    mail_id: UUID,
    to: str,
    mail_from: str,
    now: datetime,
    stop_url: str | None,
    logo: Logo | None = None,
    pdf: Attached | None = None,
) -> bytes:
    """The message as sent over the wire (RFC 5322, CRLF). Raises BadAddress.

    The Message-ID is made from the mail's id, so that a mail program recognizes a message sent twice. `stop_url`
    appears at the foot and in List-Unsubscribe, which mail programs may follow with one click (RFC 8058).
    """
    _, _, domain = mail_from.rpartition("@")
    message = EmailMessage(policy=SMTP)
    if not to.isascii():
        # A local part with other characters requires that every server on the way supports RFC 6531, and too few do.
        raise BadAddress("not ascii")
    try:
        sender = f"{_one_line(letter.merchant)} via Quita" if letter.merchant else "Quita"
        message["From"] = Address(sender, addr_spec=mail_from)
        message["To"] = Address(addr_spec=to)
    except (ValueError, IndexError, AttributeError, MessageError) as error:
        # For odd addresses the standard library's parser raises not only its own errors.
        raise BadAddress(str(type(error).__name__)) from None
    message["Subject"] = _one_line(letter.subject)[:_SUBJECT_MAX]
    message["Date"] = now
    message["Message-ID"] = f"<{mail_id}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    if stop_url is not None:
        message["List-Unsubscribe"] = f"<{stop_url}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(plain_text(letter, stop_url))
    page = _html_template.render(letter=letter, stop_url=stop_url, logo=logo, logo_id=f"{LOGO_ID}@{domain}")
    message.add_alternative(page, subtype="html")
    if logo is not None:
        html = message.get_payload(1)
        assert isinstance(html, EmailMessage), "text, then HTML"
        html.add_related(
            logo.image, "image", "png", cid=f"<{LOGO_ID}@{domain}>", filename="logo.png", disposition="inline"
        )
    if pdf is not None:
        message.add_attachment(pdf.content, maintype="application", subtype="pdf", filename=pdf.file_name)
    return message.as_bytes()


def plain_text(letter: Letter, stop_url: str | None) -> str:
    parts = [letter.heading, letter.lead]
    if letter.amount:
        parts.append(f"Valor: {letter.amount}")
    if letter.note:
        parts.append(f"Mensagem de {letter.merchant}:\n{letter.note}")
    parts.append("\n".join(f"{label}: {value}" for label, value in letter.facts))
    parts.append(f"{letter.link[0]}: {letter.link[1]}")
    parts += [f"{code.label}:\n{code.text}" for code in letter.codes]
    parts += letter.closing
    parts.append("-" * _RULE_CHARS)
    if stop_url is None:
        recipients = f"às pessoas da conta {letter.merchant}" if letter.merchant else "à equipe da plataforma"
        parts.append(f"Enviado pela Quita {recipients}.")
    else:
        parts.append(
            f"Enviado pela Quita a pedido de {letter.merchant}. Nunca pedimos senha nem código por telefone.\n"
            f"Para não receber mais e-mails das cobranças de {letter.merchant}: {stop_url}"
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _one_line(text: str) -> str:
    """The text on one line: line ends and control characters become blanks, so that they cannot end a header early."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
