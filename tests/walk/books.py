"""What an auditor asks of the books after any walk: of ours alone, and of ours beside the bank's. Each answer is empty.

Nothing here knows what was done: the questions hold for every state the service can be in once it is at rest.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec

from sql import Connection

# What a row of the journal makes of a status: spec, States and transitions. Anything else changes none.
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

UNDONE: Final = "something left undone"
UNENDED: Final = frozenset({
    UNDONE, "a refund that has not ended", "a withdrawal that has not ended",
    "a refund that the bank does not have so, or has though it failed",
    "a withdrawal that the bank does not have so, or has though it failed or was cancelled",
})  # fmt: skip
"""What is no fault while money is still on its way."""

_WRONG = re.compile(r"^-- wrong: (.+)$", re.MULTILINE)


def _questions() -> dict[str, str]:
    """What would be wrong, and the statement that finds it."""
    _, *parts = _WRONG.split((Path(__file__).parent / "books.sql").read_text(encoding="utf-8"))
    asked = dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
    assert set(asked) >= UNENDED
    return asked


QUESTIONS: Final = _questions()


async def faults(conn: Connection, accounts: Sequence[UUID], *, but: Collection[str] = ()) -> list[str]:
    """Everything that is wrong with these accounts, once they are at rest; each with its first rows."""
    wrong = []
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        for what, question in QUESTIONS.items():
            if what in but:
                continue
            given = [list(accounts)] if "$1" in question else []
            if rows := await conn.fetch(question, *given):
                wrong.append(f"{what}: {[tuple(row) for row in rows[:5]]}")
        for row in await conn.fetch(_JOURNAL, list(accounts)):
            wrong += _unexplained(row)
    return wrong


def _unexplained(row: Any) -> list[str]:
    """Whether the journal tells how the charge came to be what it is, by steps that the table knows."""
    status: str | None = None
    for kind in row["kinds"]:
        if kind in _BECOMES:
            may, becomes = _BECOMES[kind]
            if status not in may:
                return [f"{row['charge_id']}: {kind} though it was {status}: {row['kinds']}"]
            status = becomes
        elif kind not in _OTHERS:
            return [f"{row['charge_id']}: what is {kind}?"]
    versions = row["versions"]
    if status != row["status"]:
        return [f"{row['charge_id']}: is {row['status']}, and the journal makes it {status}"]
    if versions != sorted(versions) or versions[0] != 1 or versions[-1] != row["version"]:
        return [f"{row['charge_id']}: its versions are {versions}, and it is at {row['version']}"]
    return []


async def unheard(conn: Connection, account_id: UUID, heard: dict[str, list[bytes]]) -> list[str]:
    """Events whose body a receiver of everything has not heard, or heard otherwise than it stands in the journal."""
    rows = await conn.fetch(
        "SELECT event_id, event_body FROM journal WHERE account_id = $1 AND event_id IS NOT NULL", account_id
    )
    bodies = {str(row["event_id"]): bytes(row["event_body"]) for row in rows}
    wrong = [f"never heard: {body!r}" for event_id, body in bodies.items() if not heard.get(event_id)]
    for event_id, told in heard.items():
        wrong += [f"heard otherwise: {each!r}" for each in told if each != bodies.get(event_id)]
        assert all(msgspec.json.decode(each)["event_id"] == event_id for each in told)
    return wrong
