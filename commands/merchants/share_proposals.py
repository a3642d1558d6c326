"""Partner shares that need two members of staff: one proposes a share, and it is in force once another confirms it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from commands.merchants.integrators import check_share, lock_integrators, set_integrator
from domain.errors import Code, Refused, required
from domain.merchants.partners import ShareProposal, check_confirmable
from readmodels.reports.integrators import Integrator, find_integrator
from runtime.ids import new_id
from sql import Connection

PROPOSED: Final = "integrator.share_proposed"
CONFIRMED: Final = "integrator.share_confirmed"
WITHDRAWN: Final = "integrator.share_withdrawn"

_add_proposal = sql.run("integrator.propose")
_lock_proposal = sql.maybe("integrator.hold_proposal", ShareProposal)
_close_proposal = sql.run("integrator.decide_proposal")
_find_open = sql.many("integrator.open_proposals", ShareProposal)


async def propose_share(conn: Connection, code: str, share_bps: int, *, by: str, now: datetime) -> None:
    """Propose a share; it replaces a proposal that waits. Refused(INTEGRADOR_CODE_INVALID) for an unknown code,
    Refused(VALIDATION_ERROR) for an invalid share."""
    check_share(share_bps)
    required(await find_integrator(conn, integrador_code=code), Code.INTEGRADOR_CODE_INVALID)
    await _add_proposal(conn, proposal_id=new_id(), integrador_code=code, share_bps=share_bps, by=by, now=now)


async def confirm_share(conn: Connection, code: str, proposal_id: UUID, *, by: str, now: datetime) -> Integrator:
    """Put the proposed share in force for charges issued from `now` on. Refused(VALIDATION_ERROR) as
    domain/merchants/partners.py says."""
    await lock_integrators(conn)
    locked = await _lock_proposal(conn, proposal_id=proposal_id, integrador_code=code)
    proposal = check_confirmable(locked, by=by)
    changed = await set_integrator(conn, code, share_bps=proposal.share_bps, now=now)
    await _close_proposal(conn, proposal_id=proposal_id, state="confirmed", by=by, now=now)
    return changed


async def withdraw_share(conn: Connection, code: str, proposal_id: UUID, *, by: str, now: datetime) -> None:
    """Withdraw a proposal, which any member of staff may do. Refused(VALIDATION_ERROR) with the field `proposal` when
    it is not open."""
    proposal = await _lock_proposal(conn, proposal_id=proposal_id, integrador_code=code)
    if proposal is None or proposal.state != "open":
        raise Refused(Code.VALIDATION_ERROR, fields={"proposal": "does not wait any more"})
    await _close_proposal(conn, proposal_id=proposal_id, state="withdrawn", by=by, now=now)


async def open_proposals(conn: Connection, codes: Sequence[str]) -> dict[str, ShareProposal]:
    """Returns the open proposals of these partners, by code."""
    proposals = await _find_open(conn, codes=list(codes)) if codes else []
    return {each.integrador_code: each for each in proposals}
