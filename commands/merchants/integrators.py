"""Register partners (integradores) and their shares; a partner's code stays on the charges issued with it.

A payment accrues the share that was in force when its charge was issued, if the partner has an account when the payment
is booked; later changes of the share do not alter it. New boletos refuse an inactive code; charges that carry it
already keep accruing.

Partners are registered in the home cell, for all cells; the other cells have a copy
(commands/merchants/partner_copy.py). A partner's own account may be in any cell.

Shares are agreed in real time, but a test charge is issued by its sandbox's clock. When that clock is ahead, the share
for the later time applies, as agreed when the payment is booked.
"""

import secrets
import unicodedata
from datetime import datetime
from uuid import UUID

import sql
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from domain.money import WHOLE_BPS
from readmodels.reports.integrators import Integrator, find_integrator
from runtime.cells.number import cell_of, current_cell
from sql import Connection

CODE_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_TRIES_MAX = 10  # there are 2 thousand million codes, so even a second try is rare


lock_integrators = sql.one("integrator.one_at_a_time", bool)
"""The lock that every change of partners takes before it locks any row of a partner."""
has_account = sql.one("integrator.has_account", bool)
insert = sql.maybe("account.insert_integrator", str)
change = sql.maybe("integrator.change", str)
set_share = sql.run("integrator.set_share")


async def create_integrator(
    conn: Connection, *, name: str, account_id: UUID | None, now: datetime, share_bps: int = 0
) -> Integrator:
    """Register a partner with a new code: `INTG-` and six of A-Z0-9. The share is in basis points.

    Refused(VALIDATION_ERROR) for an invalid name or share, Refused(WALLET_ACCOUNT_NOT_FOUND) for an account of this
    cell that does not exist; the caller has checked an account of another cell (partner_copy.account_exists).
    """
    check_name(name)
    check_share(share_bps)
    await _check_account(conn, account_id)
    await lock_integrators(conn)
    for _ in range(_TRIES_MAX):
        code = f"INTG-{''.join(secrets.choice(CODE_CHARACTERS) for _ in range(6))}"
        inserted = await insert(conn, integrador_code=code, name=name, account_id=account_id, created_at=now)
        if inserted is not None:
            if share_bps:
                await set_share(conn, integrador_code=code, since=to_millisecond(now), share_bps=share_bps)
            return Integrator(code, name, account_id, True, share_bps)
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
    """Change the given values of a partner; a new share applies to charges issued from `now` on.

    Refused(INTEGRADOR_CODE_INVALID) for an unknown code, Refused(VALIDATION_ERROR) for an invalid share,
    Refused(WALLET_ACCOUNT_NOT_FOUND) as in `create_integrator`.
    """
    if share_bps is not None:
        check_share(share_bps)
    await _check_account(conn, account_id)
    await lock_integrators(conn)
    if await change(conn, integrador_code=code, active=active, account_id=account_id) is None:
        raise Refused(Code.INTEGRADOR_CODE_INVALID)
    if share_bps is not None:
        # In milliseconds, as charges are dated: a charge issued in this very millisecond has the new share.
        await set_share(conn, integrador_code=code, since=to_millisecond(now), share_bps=share_bps)
    integrator = await find_integrator(conn, integrador_code=code)
    assert integrator is not None
    return integrator


async def _check_account(conn: Connection, account_id: UUID | None) -> None:
    is_local = account_id is not None and cell_of(account_id) == current_cell()
    if is_local and not await has_account(conn, account_id=account_id):
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)


def check_name(name: str) -> None:
    """Refused(VALIDATION_ERROR) for an invalid name of an account or a partner."""
    if not name.strip() or len(name) > 100 or any(unicodedata.category(each)[0] == "C" for each in name):
        raise Refused(Code.VALIDATION_ERROR, fields={"name": "must be 1 to 100 printable characters"})


def check_share(share_bps: int) -> None:
    """Refused(VALIDATION_ERROR) for an invalid share."""
    if not 0 <= share_bps <= WHOLE_BPS:
        raise Refused(Code.VALIDATION_ERROR, fields={"share": "must be 0 to 100 percent, at most two decimals"})
