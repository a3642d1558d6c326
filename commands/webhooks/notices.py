"""Notify a merchant's people of what waits for them: problems with their webhooks, and what payers ask for.

Stored here, shown by the dashboard, sent by e-mail.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from sql import Connection

SANDBOX_MARK = "[TESTE/SANDBOX]"
"""In front of the event type of every notice that is about test events (spec, delivery rules)."""


SECOND_COPY: Final = "second_copy_asked"
"""The kind of a notice that a payer asked for a second copy of a boleto."""


class NewNotice(Struct, frozen=True, kw_only=True):
    """`facts` are for the reader: numbers, instants and the merchant's own address; no secret and no payload."""

    notice_id: UUID
    account_id: UUID
    test: bool
    kind: str
    event_type: str
    endpoint_id: UUID | None
    facts: dict[str, Any]


class Notice(Struct, frozen=True):
    """A notice to be sent by e-mail. `facts` is JSON, `mail_tries` counts this try."""

    notice_id: UUID
    account_id: UUID
    test: bool
    kind: str
    event_type: str
    endpoint_id: UUID | None
    at: datetime
    facts: bytes
    mail_tries: int


add = sql.run("notice.add")
claim_unmailed = sql.many("notice.claim_unmailed", Notice)
"""`now, lease_until, limit`: notices not mailed yet, each leased to the caller until it is marked or the lease ends."""
mark_mailed = sql.run("notice.mark_mailed")
"""`notice_ids, now`."""


async def give_notice(conn: Connection, notices: Sequence[NewNotice], *, now: datetime) -> None:
    """Store them in the transaction of what they are about."""
    if notices:
        await add(
            conn,
            notices=notices,
            event_types=[f"{SANDBOX_MARK} {each.event_type}" if each.test else each.event_type for each in notices],
            facts=[msgspec.json.encode(each.facts) for each in notices],
            now=now,
        )
