"""The staff's review of a registration: the items they checked, whether each is unchanged since, and their notes."""

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
    """The items that must be checked before approval, in this order."""

    COMPANY = "company"
    ADDRESS = "address"
    PEOPLE = "people"
    PAYOUT_KEY = "payout_key"
    ACTIVITY = "activity"


class ReviewedItem(Struct, frozen=True):
    """An item and its check. `stands`: the item is unchanged since the check. `checked_at` is None before a check."""

    item: ReviewItem
    seen: str
    """The digest of the item as it is now, in hexadecimal; the form sends it back, to say what was checked."""
    checked_by: str | None = None
    checked_at: datetime | None = None
    stands: bool = True

    @property
    def done(self) -> bool:
        return self.checked_at is not None and self.stands


class _CheckRow(Struct, frozen=True):
    item: str
    seen: bytes
    checked_by: str
    checked_at: datetime


class AccountNote(Struct, frozen=True):
    written_at: datetime
    written_by: str
    text: str


_find_checks = sql.many("registration_review.checks", _CheckRow)
_find_notes = sql.many("registration_review.notes", AccountNote)


async def review_of(conn: Connection, company: Company, people: Sequence[PersonRow]) -> list[ReviewedItem]:
    """Every item, checked or not."""
    checks = {each.item: each for each in await _find_checks(conn, account_id=company.account_id)}
    reviewed = []
    for item, facts in _facts_by_item(company, people).items():
        seen = sha256(msgspec.json.encode(facts)).digest()
        check = checks.get(item)
        if check is None:
            reviewed.append(ReviewedItem(item, seen.hex()))
        else:
            reviewed.append(ReviewedItem(item, seen.hex(), check.checked_by, check.checked_at, check.seen == seen))
    return reviewed


async def notes_of(conn: Connection, account_id: UUID) -> list[AccountNote]:
    """The notes about the account, latest first, at most NOTES_MAX."""
    return await _find_notes(conn, account_id=account_id, limit=NOTES_MAX)


def _facts_by_item(company: Company, people: Sequence[PersonRow]) -> dict[ReviewItem, object]:
    """The data that each item covers. A company's activity is not stored, so its check holds for the company's name and
    document."""
    return {
        ReviewItem.COMPANY: [company.name, company.document],
        ReviewItem.ADDRESS: list(company.parts.values()),
        ReviewItem.PEOPLE: sorted([each.email, str(each.role)] for each in people),
        ReviewItem.PAYOUT_KEY: company.pix_key,
        ReviewItem.ACTIVITY: [company.name, company.document],
    }
