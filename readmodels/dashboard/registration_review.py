"""What staff looked at of a registration, whether it still stands as they saw it, and their notes about the account."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from readmodels.dashboard.company import Company
from readmodels.dashboard.people import PersonRow
from sql import Connection

NOTES_MAX: Final = 50


class ReviewItem(StrEnum):
    """What an approver has to have looked at, in this order."""

    COMPANY = "company"
    ADDRESS = "address"
    PEOPLE = "people"
    PAYOUT_KEY = "payout_key"
    ACTIVITY = "activity"


class ReviewedItem(Struct, frozen=True):
    """`stands`: nothing of it was changed since. `checked_at` is None while nobody has looked."""

    item: ReviewItem
    seen: str
    """Of what is there now, in hexadecimal: a form sends it back."""
    checked_by: str | None = None
    checked_at: datetime | None = None
    stands: bool = True

    @property
    def done(self) -> bool:
        return self.checked_at is not None and self.stands


class _Check(Struct, frozen=True):
    item: str
    seen: bytes
    checked_by: str
    checked_at: datetime


class AccountNote(Struct, frozen=True):
    written_at: datetime
    written_by: str
    text: str


_checks = sql.many("registration_review.checks", _Check)
_notes = sql.many("registration_review.notes", AccountNote)


async def review_of(conn: Connection, company: Company, people: Sequence[PersonRow]) -> list[ReviewedItem]:
    """Every item, looked at or not."""
    checks = {each.item: each for each in await _checks(conn, account_id=company.account_id)}
    found = []
    for item, facts in _facts(company, people).items():
        seen = sha256(msgspec.json.encode(facts)).digest()
        check = checks.get(item)
        if check is None:
            found.append(ReviewedItem(item, seen.hex()))
        else:
            found.append(ReviewedItem(item, seen.hex(), check.checked_by, check.checked_at, check.seen == seen))
    return found


async def notes_of(conn: Connection, account_id: UUID) -> list[AccountNote]:
    """The latest first, NOTES_MAX at most."""
    return await _notes(conn, account_id=account_id, limit=NOTES_MAX)


def _facts(company: Company, people: Sequence[PersonRow]) -> dict[ReviewItem, object]:
    """What each item is about. What a company does stands nowhere, so that is looked at for the company as named."""
    return {
        ReviewItem.COMPANY: [company.name, company.document],
        ReviewItem.ADDRESS: list(company.parts.values()),
        ReviewItem.PEOPLE: sorted([each.email, str(each.role)] for each in people),
        ReviewItem.PAYOUT_KEY: company.pix_key,
        ReviewItem.ACTIVITY: [company.name, company.document],
    }
