"""Take a partner in: the code that stands on the charges he brings, for ever."""

import secrets
import unicodedata
from datetime import datetime
from uuid import UUID

import asyncpg
from msgspec import Struct

import sql
from domain.errors import Code, Refused
from sql import Connection

CODE_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_TRIES_MAX = 10  # of 2 thousand million codes; a second try is already a rarity


class Integrator(Struct, frozen=True):
    """A partner. `account_id` is his own account, when he has one."""

    integrador_code: str
    name: str
    account_id: UUID | None
    active: bool


class _Taken(Struct, frozen=True):
    integrador_code: str


insert = sql.maybe("account.insert_integrator", _Taken)


async def create_integrator(conn: Connection, *, name: str, account_id: UUID | None, now: datetime) -> Integrator:
    """A partner with a code of his own: `INTG-` and six of A-Z0-9.

    Refused(VALIDATION_ERROR) for a name that cannot be, Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account.
    """
    check_name(name)
    for _ in range(_TRIES_MAX):
        code = f"INTG-{''.join(secrets.choice(CODE_CHARACTERS) for _ in range(6))}"
        try:
            made = await insert(conn, integrador_code=code, name=name, account_id=account_id, created_at=now)
        except asyncpg.ForeignKeyViolationError:
            raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND) from None
        if made is not None:
            return Integrator(code, name, account_id, True)
    raise AssertionError(f"{_TRIES_MAX} codes in a row were taken")


def check_name(name: str) -> None:
    """Refused(VALIDATION_ERROR) for what cannot be the name of an account or a partner."""
    if not name.strip() or len(name) > 100 or any(unicodedata.category(each)[0] == "C" for each in name):
        raise Refused(Code.VALIDATION_ERROR, fields={"name": "must be 1 to 100 printable characters"})
