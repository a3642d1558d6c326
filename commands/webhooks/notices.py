"""Notify a merchant's people of what waits for them: problems with their webhooks, and what payers ask for.

Stored here, shown by the dashboard, sent by e-mail.
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
from domain.webhooks.breaker import Transition
from sql import Connection

SANDBOX_MARK = "[TESTE/SANDBOX]"
"""In front of the event type of every notice that is about test events (spec, delivery rules)."""


SECOND_COPY: Final = "second_copy_asked"
"""The kind of a notice that a payer asked for a second copy of a boleto."""
A_DAY_MAX: Final = 20
"""Of each bounded kind, about one endpoint in one mode: a receiver that fails and recovers by turns would have all the
account's people mailed without end. The last says that it is the last. A pause is told always."""
_DAY: Final = timedelta(hours=24)
_BOUNDED: Final = frozenset({Transition.FAILING.value, Transition.RECOVERED.value})


class NewNotice(Struct, frozen=True, kw_only=True):
    """`facts` are for the reader: numbers, instants and the host of the merchant's address; no secret, no payload."""

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


class _Given(Struct, frozen=True):
    endpoint_id: UUID | None
    test: bool
    kind: str
    notices: int


add = sql.run("notice.add")
_given_since = sql.many("notice.given_since", _Given)
claim_unmailed = sql.many("notice.claim_unmailed", Notice)
"""`now, lease_until, limit`: notices not mailed yet, each leased to the caller until it is marked or the lease ends."""
mark_mailed = sql.run("notice.mark_mailed")
"""`notice_ids, now`."""


async def give_notice(conn: Connection, notices: Sequence[NewNotice], *, now: datetime) -> None:
    """Store them in the transaction of what they are about; of bounded kinds A_DAY_MAX in a day, and no more."""
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
    given = (
        await _given_since(conn, account_ids=list(bounded), kinds=list(_BOUNDED), since=now - _DAY) if bounded else []
    )
    counts = Counter({(each.endpoint_id, each.test, each.kind): each.notices for each in given})
    kept = []
    for notice in notices:
        if notice.kind in _BOUNDED:
            of = (notice.endpoint_id, notice.test, notice.kind)
            counts[of] += 1
            if counts[of] > A_DAY_MAX:
                continue
            if counts[of] == A_DAY_MAX:
                notice = replace(notice, facts=notice.facts | {"last": True})
        kept.append(notice)
    return kept
