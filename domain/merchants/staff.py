"""The platform's staff: their roles, and who counts as one of two where a decision takes two (contract section 16)."""

from datetime import datetime, timedelta
from typing import Final

ROLES: Final = ("admin", "operations", "finance", "support")
NEWCOMER: Final = timedelta(hours=24)
"""An admin who lets in a second person of his own would be two at once. All admins are mailed of everybody who comes
in or gets another role, and have this long to read it."""


def is_newcomer(role_given_at: datetime | None, *, now: datetime) -> bool:
    """Whether somebody is neither first nor second of two yet: a colleague gave the role less than a day ago. None is
    of whom the operator let in, who needs no second."""
    return role_given_at is not None and now - role_given_at < NEWCOMER
