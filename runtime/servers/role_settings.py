"""The settings of the application's role that every statement of ours relies on.

A pooler in transaction mode gives each transaction another session, so a setting made on a connection holds nowhere.
"""

from collections.abc import Mapping
from typing import Final

import sql
from sql import Connection

STATEMENT_MS: Final = 10_000

SETTINGS: Final[Mapping[str, str]] = {
    "jit": "off",
    # Every statement walks the index it is written for, in order, and stops at its limit. A bitmap scan reads and sorts
    # the whole range first, and is chosen just when the planner takes a long range for a short one.
    "enable_bitmapscan": "off",
    # Nor may a plan made while its table was young go on walking the whole table once it has grown.
    "enable_seqscan": "off",
    # A statement over arrays of few rows was planned anew at each call, which took four times as long as running it:
    # the planner assumes ten rows for an array it does not know. No plan here depends on the values.
    "plan_cache_mode": "force_generic_plan",
    # Rows are looked up by key, however few there are today. With the default, 4, the planner reads a table of some
    # thousand rows whole to join a hundred to it, and still does when the table has a million; at 0.1 it walks an
    # account's whole range where a narrower range is in a larger index.
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
"""The settings of a tool's own connection, which reads whole tables and takes its time."""


class SettingsMissing(Exception):
    """The role has other settings than ours, and a pooler is in between; the message is one line for the operator."""


_others = sql.many("roles.others", str)


async def others(conn: Connection, wanted: Mapping[str, str]) -> set[str]:
    """The settings that have other values in this session."""
    return set(await _others(conn, names=list(wanted), values=list(wanted.values())))
