"""The simulated bank: its books, the payloads of its locations, and its HTTP API."""

from typing import Final

FAULTS: Final = ("up", "down", "slow", "lost_reply", "refuse", "timeout_before", "cut", "error500", "html")
"""timeout_before: a change is neither performed nor answered. cut: a change is performed, but its answer breaks off.
error500, html: every request except for tokens gets that answer, and nothing is performed."""
