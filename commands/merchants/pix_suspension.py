"""Suspend and resume the issuing of PIX charges without a boleto, in production (spec, PIX_AVULSO_SUSPENDED)."""

from datetime import datetime

import sql
from sql import Connection

_is_suspended = sql.one("account.pix_suspended", bool)
_suspend = sql.run("account.suspend_pix")
_resume = sql.run("account.resume_pix")


async def suspend_pix(conn: Connection, *, now: datetime) -> None:
    """Suspend the issuing. Creations read this row in their own statement, so it is in force everywhere from the commit
    on."""
    await _suspend(conn, now=now)


async def resume_pix(conn: Connection) -> None:
    await _resume(conn)


async def pix_suspended(conn: Connection) -> bool:
    """Whether the issuing is suspended, to explain a refusal; a creation's own statement reads the row in the snapshot
    in which it writes."""
    return await _is_suspended(conn)
