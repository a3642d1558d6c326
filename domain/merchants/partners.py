"""The partner shares that one member of staff may set alone, and the confirmation of others (contract section 16)."""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from domain.errors import Code, Refused

ALONE_BPS_MAX: Final = 2_000
"""20 %. With a larger share a member of staff could, together with a person who is both merchant and partner, live on
the platform's money."""


class ShareProposal(Struct, frozen=True, gc=False):
    """A share, in basis points, that one member of staff proposes and another has to confirm."""

    proposal_id: UUID
    integrador_code: str
    share_bps: int
    proposed_by: str
    proposed_at: datetime
    state: str


def needs_second(share_bps: int, *, now_bps: int) -> bool:
    """Whether this share, for a partner whose share is `now_bps`, needs a second member of staff. An unchanged share
    does not."""
    return share_bps > ALONE_BPS_MAX and share_bps != now_bps


def check_confirmable(proposal: ShareProposal | None, *, by: str) -> ShareProposal:
    """Returns the proposal if `by` may confirm it. Refused(VALIDATION_ERROR) with the field `by` for the proposer, with
    `proposal` when none is open."""
    if proposal is None or proposal.state != "open":
        raise Refused(Code.VALIDATION_ERROR, fields={"proposal": "does not wait any more"})
    if proposal.proposed_by == by:
        raise Refused(Code.VALIDATION_ERROR, fields={"by": "must be somebody else than who proposed it"})
    return proposal
