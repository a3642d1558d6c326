"""Register partners (integradores) and their shares; a partner's code stays on the charges issued with it.

A payment accrues the share that was in force when its charge was issued, if the partner has an account by then: later
changes of the share do not alter it. A code that is inactive is refused on new boletos; charges that carry it already
keep accruing.

Shares are agreed in real time, and a test charge is issued by its sandbox's clock: in one that is ahead, the share in
force at that later time, as agreed when the money comes, is used.
"""

import secrets
import unicodedata
from datetime import datetime
from uuid import UUID

import asyncpg

import sql
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from readmodels.reports.integrators import Integrator, find_integrator
from sql import Connection

CODE_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
WHOLE_BPS = 10_000
_TRIES_MAX = 10  # of 2 thousand million codes: even a second try is rare


insert = sql.maybe("account.insert_integrator", str)
change = sql.maybe("integrator.change", str)
set_share = sql.run("integrator.set_share")


async def create_integrator(
    conn: Connection, *, name: str, account_id: UUID | None, now: datetime, share_bps: int = 0
) -> Integrator:
    """A partner with a code: `INTG-` and six of A-Z0-9. The share is in basis points.

    Refused(VALIDATION_ERROR) for a name or share that cannot be, Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown
    account.
    """
    check_name(name)
    check_share(share_bps)
    for _ in range(_TRIES_MAX):
        code = f"INTG-{''.join(secrets.choice(CODE_CHARACTERS) for _ in range(6))}"
        try:
            made = await insert(conn, integrador_code=code, name=name, account_id=account_id, created_at=now)
        except asyncpg.ForeignKeyViolationError:
            raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND) from None
        if made is not None:
            if share_bps:
                await set_share(conn, integrador_code=code, since=to_millisecond(now), share_bps=share_bps)
            return Integrator(code, name, account_id, True, now, share_bps)
    raise AssertionError(f"{_TRIES_MAX} codes in a row were taken")


async def set_integrator(
    conn: Connection,
    code: str,
    *,
    now: datetime,
    share_bps: int | None = None,
    active: bool | None = None,
    account_id: UUID | None = None,
) -> Integrator:
    """Change what is given of a partner; a share holds for charges issued from `now` on.

    Refused(INTEGRADOR_CODE_INVALID) for an unknown code, Refused(VALIDATION_ERROR) for a share that cannot be,
    Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account.
    """
    if share_bps is not None:
        check_share(share_bps)
    try:
        changed = await change(conn, integrador_code=code, active=active, account_id=account_id)
    except asyncpg.ForeignKeyViolationError:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND) from None
    if changed is None:
        raise Refused(Code.INTEGRADOR_CODE_INVALID)
    if share_bps is not None:
        # As charges are: one issued in this very millisecond has the new share.
        await set_share(conn, integrador_code=code, since=to_millisecond(now), share_bps=share_bps)
    found = await find_integrator(conn, integrador_code=code)
    assert found is not None
    return found


def check_name(name: str) -> None:
    """Refused(VALIDATION_ERROR) for what cannot be the name of an account or a partner."""
    if not name.strip() or len(name) > 100 or any(unicodedata.category(each)[0] == "C" for each in name):
        raise Refused(Code.VALIDATION_ERROR, fields={"name": "must be 1 to 100 printable characters"})


def check_share(share_bps: int) -> None:
    """Refused(VALIDATION_ERROR) for what cannot be a share."""
    if not 0 <= share_bps <= WHOLE_BPS:
        raise Refused(Code.VALIDATION_ERROR, fields={"share": "must be 0 to 100 percent, at most two decimals"})
