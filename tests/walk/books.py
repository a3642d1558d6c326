"""An auditor's queries on the books after any walk: on ours alone, and on ours beside the bank's. None may find a row.

The queries do not know what was done: they hold in every state of the service once nothing is under way.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec

from sql import Connection

# The status before and after each kind of journal row: spec, States and transitions. Other kinds change no status.
_BECOMES: Final[dict[str, tuple[set[str | None], str]]] = {
    "charge.created": ({None}, "pending"),
    "payment.received": ({"pending", "expired"}, "paid"),
    "charge.cancelled": ({"pending"}, "cancelled"),
    "charge.expired": ({"pending"}, "expired"),
    "charge.failed": ({"pending"}, "failed"),
    "charge.due_date_changed": ({"pending"}, "pending"),
    "charge.refunded": ({"paid"}, "refunded"),
}
_OTHERS: Final = {"refund.created", "refund.succeeded", "refund.failed", "payment.anomaly", "fee.charged"}

_JOURNAL = """
SELECT j.charge_id, array_agg(j.kind ORDER BY j.journal_id) AS kinds,
       array_agg(j.version ORDER BY j.journal_id) AS versions, c.status, c.version
FROM journal j JOIN charge c USING (charge_id, account_id)
WHERE j.account_id = ANY($1::uuid[]) GROUP BY j.charge_id, c.status, c.version
"""

UNDONE: Final = "a bank order that is left"
UNENDED: Final = frozenset({
    UNDONE, "a refund that has not ended", "a withdrawal that has not ended",
    "a refund that differs from the bank's, or failed and was made by the bank",
    "a withdrawal that differs from the bank's, or failed or was cancelled and was made by the bank",
})  # fmt: skip
"""Findings that are no fault while refunds and withdrawals are under way."""

_WRONG = re.compile(r"^-- wrong: (.+)$", re.MULTILINE)


def _questions() -> dict[str, str]:
    """Each fault, and the query that finds it."""
    _, *parts = _WRONG.split((Path(__file__).parent / "books.sql").read_text(encoding="utf-8"))
    asked = dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
    assert set(asked) >= UNENDED
    return asked


QUESTIONS: Final = _questions()


async def faults(conn: Connection, accounts: Sequence[UUID], *, but: Collection[str] = ()) -> list[str]:
    """The faults in the books of these accounts, which must be at rest; each with its first rows. `but`: faults not
    looked for."""
    wrong = []
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        for what, question in QUESTIONS.items():
            if what in but:
                continue
            given = [list(accounts)] if "$1" in question else []
            if rows := await conn.fetch(question, *given):
                wrong.append(f"{what}: {[tuple(row) for row in rows[:5]]}")
        for row in await conn.fetch(_JOURNAL, list(accounts)):
            wrong += _journal_faults(row)
    return wrong


def _journal_faults(row: Any) -> list[str]:
    """Faults of a charge whose journal does not lead to its status and version by the transitions of the table."""
    status: str | None = None
    for kind in row["kinds"]:
        if kind in _BECOMES:
            may, becomes = _BECOMES[kind]
            if status not in may:
                return [f"{row['charge_id']}: {kind} though it was {status}: {row['kinds']}"]
            status = becomes
        elif kind not in _OTHERS:
            return [f"{row['charge_id']}: the journal has the unknown kind {kind}"]
    versions = row["versions"]
    if status != row["status"]:
        return [f"{row['charge_id']}: its status is {row['status']}, but its journal leads to {status}"]
    if versions != sorted(versions) or versions[0] != 1 or versions[-1] != row["version"]:
        return [f"{row['charge_id']}: its versions are {versions}, and it is at {row['version']}"]
    return []


async def webhook_faults(conn: Connection, account_id: UUID, received_bodies: dict[str, list[bytes]]) -> list[str]:
    """Events that a receiver of every kind did not get, or got with a body other than the journal's."""
    rows = await conn.fetch(
        "SELECT event_id, event_body FROM journal WHERE account_id = $1 AND event_id IS NOT NULL", account_id
    )
    bodies = {str(row["event_id"]): bytes(row["event_body"]) for row in rows}
    wrong = [f"never received: {body!r}" for event_id, body in bodies.items() if not received_bodies.get(event_id)]
    for event_id, received in received_bodies.items():
        wrong += [f"received with another body: {each!r}" for each in received if each != bodies.get(event_id)]
        assert all(msgspec.json.decode(each)["event_id"] == event_id for each in received)
    return wrong
