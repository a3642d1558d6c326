"""The addresses of the databases: settings, read like the others once when a process starts (runtime/settings.py)."""

from collections.abc import Mapping
from typing import Any, Final

from runtime.cells.number import CELLS_MAX, HOME
from runtime.limits.variables import switch, whole_number

STATEMENTS_KEPT: Final = 256


def read_databases(env: Mapping[str, str]) -> dict[str, Any]:
    """The fields `database_...` of the settings; ValueError when DATABASE_URL is missing."""
    url = env.get("DATABASE_URL", "")
    if not url:
        raise ValueError("DATABASE_URL is not set")
    return {
        "database_url": url,
        "database_report_url": env.get("DATABASE_REPORT_URL") or url,
        "database_read_url": env.get("DATABASE_READ_URL", ""),
        "statements_kept": STATEMENTS_KEPT if switch(env, "DATABASE_PREPARED", "1") else 0,
        "cell": cell_number(env),
        "directory_url": url,
    }


def cell_number(env: Mapping[str, str]) -> int:
    """CELL, the number of the cell that a worker works for: home's, 0, where it is not set."""
    return whole_number(env, "CELL", 0, CELLS_MAX - 1) or HOME
