"""The merchant's contact for payers' questions: telephone and e-mail, shown on the payer page."""

import re
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from domain.errors import Code, Refused
from domain.payer import is_mail_address
from sql import Connection

_PUNCTUATION: Final = re.compile(r"[ ().\-]")
_BRAZILIAN_PHONE: Final = re.compile(r"[1-9][0-9]{9,10}")
"""A Brazilian telephone: the area code and eight or nine digits."""
_E164_PHONE: Final = re.compile(r"\+[1-9][0-9]{8,14}")
"""E.164."""


class Contact(Struct, frozen=True):
    """`phone` is in E.164; `whatsapp`: the telephone also takes messages. `phone` and `email` may be empty."""

    phone: str = ""
    whatsapp: bool = False
    email: str = ""


_store_contact = sql.run("account.set_contact")


def read_contact(phone: str, email: str, *, whatsapp: bool) -> Contact:
    """Read a contact as people type it; a Brazilian telephone may lack the +55. Refused(VALIDATION_ERROR) with
    fields.phone and fields.email."""
    wrong = {}
    bare = _PUNCTUATION.sub("", phone)
    if _BRAZILIAN_PHONE.fullmatch(bare):
        bare = f"+55{bare}"
    if (bare or whatsapp) and not _E164_PHONE.fullmatch(bare):
        wrong["phone"] = "must be a telephone with its area code"
    if email and not is_mail_address(email):
        wrong["email"] = "must be an e-mail address"
    if wrong:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    return Contact(bare, whatsapp, email)


async def set_contact(conn: Connection, account_id: UUID, contact: Contact) -> None:
    await _store_contact(
        conn,
        account_id=account_id,
        contact_phone=contact.phone,
        contact_whatsapp=contact.whatsapp,
        contact_email=contact.email,
    )
