"""The registration of a real merchant: its data, their checks, and their correction before approval.

A registered account has a CNPJ, an address and a payout key of its own, waits for a decision (KYC pending), and has one
owner, who chooses a password by a mailed link. Nobody is given a secret: the owner creates the credentials.
"""

import re
import unicodedata
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.merchants.integrators import create_integrator
from commands.people.links import ask_for_link
from commands.people.people import add_person
from domain.documents import check_digits_hold, well_formed
from domain.errors import Code, Refused
from domain.payer import STATES
from domain.refund import pix_key_fault
from runtime.seal import Seal
from sql import Connection

STREET_MAX: Final = 80
NUMBER_MAX: Final = 20
DISTRICT_MAX: Final = 60
CITY_MAX: Final = 60


class Address(Struct, frozen=True):
    """The registered address of a merchant; `state` is two letters, `zip_code` eight digits (CEP)."""

    street: str
    number: str
    district: str
    city: str
    state: str
    zip_code: str


class MerchantRegistration(Struct, frozen=True, kw_only=True):
    """The data of a registration: `name` as the Receita Federal has it, `document` a bare CNPJ, `payout_key` a PIX key
    that belongs to that CNPJ."""

    name: str
    document: str
    email: str
    payout_key: str
    address: Address


class Registered(Struct, frozen=True, kw_only=True):
    name: str
    account_id: UUID
    kyc: str
    email: str
    """The e-mail of the owner, to whom a link is mailed."""
    integrador_code: str


insert_account = sql.run("account.insert")
store_address = sql.maybe("account.set_address", UUID)
_correct = sql.maybe("account.correct", UUID)


async def register_merchant(
    conn: Connection, registration: MerchantRegistration, *, account_id: UUID, letters: bool, now: datetime, seal: Seal
) -> Registered:
    """Register one account, pending and without credentials; a link is mailed to its owner.

    `letters`: whether a CNPJ with letters is accepted. Refused(VALIDATION_ERROR) with every invalid field: name,
    document, payout_key, email (also one that signs in already), and those of the address.
    """
    check_registration(registration, letters=letters)
    await insert_account(
        conn,
        account_id=account_id,
        name=registration.name,
        document=registration.document,
        city=registration.address.city,
        address=msgspec.json.encode(registration.address),
        kyc="pending",
        pix_key=registration.payout_key,
        created_at=now,
    )
    integrator = await create_integrator(conn, name=registration.name, account_id=account_id, now=now)
    await add_person(conn, account_id, registration.email, "owner", None, now=now)
    await ask_for_link(conn, registration.email, now=now, seal=seal)
    return Registered(
        name=registration.name,
        account_id=account_id,
        kyc="pending",
        email=registration.email,
        integrador_code=integrator.integrador_code,
    )


async def correct_registration(
    conn: Connection, account_id: UUID, name: str, document: str, address: Address, *, letters: bool
) -> None:
    """Correct the registration of an account that was never approved. After approval only the address can be changed.

    Refused(VALIDATION_ERROR) as `register_merchant`, and with fields.kyc for an account that was approved, also when it
    is blocked, because lifting a block does not check the registration again.
    """
    if wrong := {**_company_faults(name, document, letters=letters), **address_faults(address)}:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    encoded = msgspec.json.encode(address)
    if (
        await _correct(conn, account_id=account_id, name=name, document=document, address=encoded, city=address.city)
        is None
    ):
        raise Refused(Code.VALIDATION_ERROR, fields={"kyc": "was approved: only its address can be changed"})


async def set_address(conn: Connection, account_id: UUID, address: Address) -> None:
    """Set the account's address. Refused(VALIDATION_ERROR) with the invalid fields, Refused(WALLET_ACCOUNT_NOT_FOUND)
    for an unknown account."""
    if wrong := address_faults(address):
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    stored = await store_address(conn, account_id=account_id, address=msgspec.json.encode(address), city=address.city)
    if stored is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)


def check_registration(registration: MerchantRegistration, *, letters: bool) -> None:
    wrong = {
        **_company_faults(registration.name, registration.document, letters=letters),
        **address_faults(registration.address),
    }
    if fault := pix_key_fault(registration.payout_key):
        wrong["payout_key"] = fault
    if wrong:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)


def address_faults(address: Address) -> dict[str, str]:
    """Returns the faults of an address by field, among them characters that boletos cannot print."""
    wrong = {
        name: f"must be 1 to {length_max} printable characters"
        for name, length_max in (
            ("street", STREET_MAX), ("number", NUMBER_MAX), ("district", DISTRICT_MAX), ("city", CITY_MAX),
        )
        if not _is_printable(getattr(address, name), length_max)
    }  # fmt: skip
    if address.state not in STATES:
        wrong["state"] = "must be a state of Brazil, 2 capital letters"
    if not re.fullmatch(r"[0-9]{8}", address.zip_code) or address.zip_code == "0" * 8:
        wrong["zip_code"] = "must be a CEP, 8 digits"
    return wrong


def _company_faults(name: str, document: str, *, letters: bool) -> dict[str, str]:
    wrong = {}
    # A BR Code is ASCII, so a name in another script would be empty there.
    if not _is_printable(name, 100) or not re.search("[A-Za-z]", _ascii_fold(name)):
        wrong["name"] = "must be 1 to 100 characters that boletos print, with a Latin letter among them"
    if len(document) != 14 or not well_formed(document, letters=letters) or not check_digits_hold(document):
        wrong["document"] = "must be a CNPJ, 14 characters without punctuation, with right check digits"
    return wrong


def _is_printable(text: str, length_max: int) -> bool:
    """Whether a boleto's PDF can print the text (WinAnsiEncoding)."""
    try:
        text.encode("cp1252")
    except UnicodeEncodeError:
        return False
    return len(text.strip()) > 0 and len(text) <= length_max and text.isprintable()


def _ascii_fold(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
