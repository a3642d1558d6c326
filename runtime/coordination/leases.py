"""Leases of duties that one process of the installation does at a time, such as asking a bank for what it received.

A lease is a row with an end by the database's clock, so neither a skewed worker nor one that died keeps a duty from the
others. No transaction stays open while the duty is done: the holder takes the lease again, which renews it, before each
part of the work, and stops when the answer is False.
"""

import sql
from sql import Connection

_take = sql.maybe("lease.take", str)
_release = sql.run("lease.release")
_release_all = sql.run("lease.release_all")


async def take_lease(conn: Connection, *, name: str, holder: str, lease_s: float) -> bool:
    """Take the duty `name` for `lease_s` seconds from now, or renew it; False while it is another holder's.

    `holder` names one process (a worker's `Context.worker`). `lease_s` must outlast the longest part of the work
    between two renewals.
    """
    return await _take(conn, name=name, holder=holder, lease_s=lease_s) is not None


async def release_lease(conn: Connection, *, name: str, holder: str) -> None:
    """Let another process take the duty at once. Nothing happens to a lease that another holder has by now."""
    await _release(conn, name=name, holder=holder)


async def release_leases(conn: Connection, *, holder: str) -> None:
    """Let other processes take all duties of a process that ends in order, at once and not when its leases run out."""
    await _release_all(conn, holder=holder)
