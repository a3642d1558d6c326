"""The platform's staff: their roles, who counts as one of two where a decision takes two (contract section 16), and the
reasons they give."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from domain.errors import Code, Refused

PLATFORM: Final = UUID(int=0)
"""The `account_id` of staff, in sessions and in the audit log: no account has this id."""
ROLES: Final = ("admin", "operations", "finance", "support")
NEWCOMER: Final = timedelta(hours=24)
"""An admin who lets in a second person of his own would be two at once. All admins are mailed of everybody who comes
in or gets another role, and have this long to read it."""
REASON_MAX: Final = 500
"""Characters of a reason."""


def reason_faults(text: str) -> dict[str, str]:
    """What cannot be as a reason, by field: it is written down on one line, of 1 to REASON_MAX printable characters."""
    reason = on_one_line(text)
    fits = 0 < len(reason) <= REASON_MAX and reason.isprintable()
    return {} if fits else {"reason": f"must be 1 to {REASON_MAX} characters"}


def read_reason(text: str) -> str:
    """As it is written down; Refused(VALIDATION_ERROR) with fields.reason for what cannot be."""
    if wrong := reason_faults(text):
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    return on_one_line(text)


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def is_newcomer(role_given_at: datetime | None, *, now: datetime) -> bool:
    """Whether somebody is neither first nor second of two yet: a colleague gave the role less than a day ago. None is
    of whom the operator let in, who needs no second."""
    return role_given_at is not None and now - role_given_at < NEWCOMER
