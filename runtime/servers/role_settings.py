"""What every statement of ours relies on, as settings of the application's role.

A pooler in transaction mode gives each transaction another session, so what a connection sets for itself holds nowhere.
"""

from collections.abc import Mapping
from typing import Final

import sql
from sql import Connection

STATEMENT_MS: Final = 10_000

SETTINGS: Final[Mapping[str, str]] = {
    "jit": "off",
    # Every statement walks the index it is written for, in order, and stops at its limit. A bitmap reads and sorts the
    # whole range first, and is chosen just when the planner takes a long range for a short one.
    "enable_bitmapscan": "off",
    # Nor may a plan made while its table was young go on walking the whole table once it has grown.
    "enable_seqscan": "off",
    # A statement over arrays of few rows was planned anew at each call, which took four times as long as running it:
    # the planner takes an array it does not know for ten rows. No plan here depends on the values.
    "plan_cache_mode": "force_generic_plan",
    # Rows are looked up by key, however few there are today. By its default, 4, the planner reads a table of some
    # thousand rows whole to join a hundred to it, and goes on to when it has a million; at 0.1 it walks an account's
    # whole range where a narrower one is in a larger index.
    "random_page_cost": "0.5",
    "statement_timeout": str(STATEMENT_MS),
    "lock_timeout": "5000",
    "idle_in_transaction_session_timeout": "10000",
    "TimeZone": "UTC",
}
"""By their names and in their units in pg_settings."""

FOR_TOOLS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"), "0"),
    "enable_bitmapscan": "on",
    "enable_seqscan": "on",
    "jit": "off",
    "plan_cache_mode": "auto",
    "random_page_cost": "4",
    "TimeZone": "UTC",
}
"""Of a connection of a tool's own, which reads whole tables and takes its time."""


class SettingsMissing(Exception):
    """Behind a pooler a role has other settings than ours; the message is one line for the operator."""


_others = sql.many("roles.others", str)


async def others(conn: Connection, wanted: Mapping[str, str]) -> set[str]:
    """The settings that this session has otherwise."""
    return set(await _others(conn, names=list(wanted), values=list(wanted.values())))
