"""Suspend and resume the issuing of PIX charges without a boleto, in production (spec, PIX_AVULSO_SUSPENDED)."""

from datetime import datetime

import sql
from sql import Connection

_find = sql.one("account.pix_suspended", bool)
_suspend = sql.run("account.suspend_pix")
_resume = sql.run("account.resume_pix")


async def suspend_pix(conn: Connection, *, now: datetime) -> None:
    """Creations look at this row in their own statement, so it holds from the commit on, everywhere."""
    await _suspend(conn, now=now)


async def resume_pix(conn: Connection, *, now: datetime) -> None:
    await _resume(conn)


async def pix_suspended(conn: Connection) -> bool:
    """For refusals: a creation's own statement looks itself, in the same snapshot as it writes."""
    return await _find(conn)
