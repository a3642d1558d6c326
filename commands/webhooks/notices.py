"""Notify a merchant's dashboard users of webhook failures and of payers' requests for a second copy.

Notices are stored here, shown by the dashboard and sent by e-mail.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import sql
from domain.events import SANDBOX_MARK
from domain.webhooks.breaker import Transition
from sql import Connection

SECOND_COPY: Final = "second_copy_asked"
"""The kind of a notice that a payer asked for a second copy of a boleto."""
A_DAY_MAX: Final = 20
"""Notices in a day of each kind in _BOUNDED, about one endpoint in one mode: without the bound, a receiver that fails
and recovers by turns would cause mails to all the account's users without end. The last notice says that it is the
last. A pause is always notified."""
_DAY: Final = timedelta(hours=24)
_BOUNDED: Final = frozenset({Transition.FAILING.value, Transition.RECOVERED.value})


class NewNotice(Struct, frozen=True, kw_only=True):
    """A notice to store. `facts` holds numbers, instants and the host of the merchant's address; no secret, no
    payload."""

    notice_id: UUID
    account_id: UUID
    test: bool
    kind: str
    event_type: str
    endpoint_id: UUID | None
    facts: dict[str, Any]


class Notice(Struct, frozen=True):
    """A notice to be sent by e-mail. `facts` is JSON."""

    notice_id: UUID
    account_id: UUID
    test: bool
    kind: str
    event_type: str
    endpoint_id: UUID | None
    at: datetime
    facts: bytes


class _NoticeCount(Struct, frozen=True):
    endpoint_id: UUID | None
    test: bool
    kind: str
    notices: int


add = sql.run("notice.add")
_count_since = sql.many("notice.given_since", _NoticeCount)
claim_unmailed = sql.many("notice.claim_unmailed", Notice)
"""`now, lease_until, limit`: notices not mailed yet, each leased to the caller until it is marked or the lease ends."""
mark_mailed = sql.run("notice.mark_mailed")
"""`notice_ids, now`."""


async def give_notice(conn: Connection, notices: Sequence[NewNotice], *, now: datetime) -> None:
    """Store the notices in the transaction of the change they report; of each kind in _BOUNDED at most A_DAY_MAX in a
    day."""
    kept = await _within_bounds(conn, notices, now=now)
    if kept:
        await add(
            conn,
            notices=kept,
            event_types=[f"{SANDBOX_MARK} {each.event_type}" if each.test else each.event_type for each in kept],
            facts=[msgspec.json.encode(each.facts) for each in kept],
            now=now,
        )


async def _within_bounds(conn: Connection, notices: Sequence[NewNotice], *, now: datetime) -> list[NewNotice]:
    bounded = {each.account_id for each in notices if each.kind in _BOUNDED}
    counted = (
        await _count_since(conn, account_ids=list(bounded), kinds=list(_BOUNDED), since=now - _DAY) if bounded else []
    )
    counts = Counter({(each.endpoint_id, each.test, each.kind): each.notices for each in counted})
    kept = []
    for notice in notices:
        if notice.kind in _BOUNDED:
            subject = (notice.endpoint_id, notice.test, notice.kind)
            counts[subject] += 1
            if counts[subject] > A_DAY_MAX:
                continue
            if counts[subject] == A_DAY_MAX:
                notice = replace(notice, facts=notice.facts | {"last": True})
        kept.append(notice)
    return kept
