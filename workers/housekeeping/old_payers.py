"""Erase payers' data once it has been kept for as long as the settings say."""

from datetime import timedelta
from typing import Final

from commands.payers.retention import erase_expired_payers
from domain.mode import Mode
from runtime.postgres import transaction
from workers.context import Context

_MONTH: Final = timedelta(days=31)
"""The longest month, so that data to be kept for some months is never kept for less."""


async def erase_old_payers(context: Context) -> int:
    """A slice of each mode's walk; returns how much was looked at. A mode whose setting is 0 is left out."""
    kept = {
        Mode.SANDBOX: timedelta(days=context.settings.kept.sandbox_kept_days),
        Mode.PRODUCTION: context.settings.kept.payers_kept_months * _MONTH,
    }
    looked_at = 0
    for mode, kept_for in kept.items():
        if kept_for:
            async with transaction(context.pool) as conn:
                looked_at += await erase_expired_payers(conn, mode, kept_for, now=context.now())
    return looked_at
