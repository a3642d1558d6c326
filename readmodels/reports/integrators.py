"""Partners (integrators) and their shares, as the operator sees them."""

from uuid import UUID

from msgspec import Struct

import sql
from sql import Connection

INTEGRATORS_MAX = 500


class Integrator(Struct, frozen=True):
    """A partner. `account_id` is the partner's own account, if any; the share is in basis points (250 is 2.5 %)."""

    integrador_code: str
    name: str
    account_id: UUID | None
    active: bool
    share_bps: int


find_integrator = sql.maybe("integrator.find", Integrator)
_list = sql.many("integrator.list", Integrator)


async def list_integrators(conn: Connection, *, after: str = "", limit: int = INTEGRATORS_MAX) -> list[Integrator]:
    """At most `limit` partners in the order of their codes, from the first code after `after`."""
    return await _list(conn, after=after, limit=limit)
