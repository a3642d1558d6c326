"""What one member of staff may give a partner alone (contract section 16)."""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from domain.errors import Code, Refused

ALONE_BPS_MAX: Final = 2_000
"""20 %. A merchant and a partner who are one person, and a member of staff, could live of more."""


class ShareProposal(Struct, frozen=True, gc=False):
    """A share that one member of staff wants and another has to confirm; in basis points."""

    proposal_id: UUID
    integrador_code: str
    share_bps: int
    proposed_by: str
    proposed_at: datetime
    state: str


def needs_second(share_bps: int, *, now_bps: int) -> bool:
    """Whether this share, of a partner who has `now_bps`, takes two. What stays as it is takes none."""
    return share_bps > ALONE_BPS_MAX and share_bps != now_bps


def check_confirmable(proposal: ShareProposal | None, *, by: str) -> ShareProposal:
    """Refused(VALIDATION_ERROR) with the field `by` for the one who proposed it, with `proposal` when none is open."""
    if proposal is None or proposal.state != "open":
        raise Refused(Code.VALIDATION_ERROR, fields={"proposal": "does not wait any more"})
    if proposal.proposed_by == by:
        raise Refused(Code.VALIDATION_ERROR, fields={"by": "must be somebody else than who proposed it"})
    return proposal
