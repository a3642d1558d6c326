"""The platform's staff: their roles, who may take part in a decision by two members (contract section 16), and the
reasons that staff give."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from domain.errors import Code, Refused

PLATFORM: Final = UUID(int=0)
"""The `account_id` of staff, in sessions and in the audit log: no account has this id."""
ROLES: Final = ("admin", "operations", "finance", "support")
NEWCOMER: Final = timedelta(hours=24)
"""Without this wait an admin could add an accomplice and take a decision by two at once. All admins are mailed when a
person is added or gets another role, and have this long to read it."""
REASON_MAX: Final = 500
"""Characters of a reason."""


def reason_faults(text: str) -> dict[str, str]:
    """Returns the fault of a reason, by field: it is stored on one line, of 1 to REASON_MAX printable characters."""
    reason = on_one_line(text)
    fits = 0 < len(reason) <= REASON_MAX and reason.isprintable()
    return {} if fits else {"reason": f"must be 1 to {REASON_MAX} characters"}


def read_reason(text: str) -> str:
    """Returns the reason as it is stored; Refused(VALIDATION_ERROR) with fields.reason for an invalid one."""
    if wrong := reason_faults(text):
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    return on_one_line(text)


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def is_newcomer(role_given_at: datetime | None, *, now: datetime) -> bool:
    """Whether a member of staff may not yet take part in a decision by two: another member gave the role less than a
    day ago. `role_given_at` is None for a person whom the operator added, who may take part at once."""
    return role_given_at is not None and now - role_given_at < NEWCOMER
