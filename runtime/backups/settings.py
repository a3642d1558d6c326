"""Where backups are kept, and how long (docs/operations/backups.md): settings of the process that makes them, which
needs neither SECRET_KEY nor anything else of the API's."""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class BackupSettings(Struct, frozen=True, kw_only=True):
    folder: Path
    """BACKUP_DIR: base backups and the archive of the write-ahead log; on another disk than the database's."""
    database_url: str
    """BACKUP_DATABASE_URL: of a role with REPLICATION, at the server itself."""
    every_h: int
    """BACKUP_EVERY_H: hours after which `quita backup run` takes another base backup."""
    kept_days: int
    """BACKUP_KEPT_DAYS: how far back can be restored to."""
    copy_command: str
    """BACKUP_COPY_COMMAND: run by the shell after each change, to copy the folder elsewhere; none unless given."""
    programs: str
    """BACKUP_PROGRAMS: the folder of PostgreSQL's own programs, of the server's major version."""

    def __repr__(self) -> str:
        return f"BackupSettings(folder={str(self.folder)!r})"


def read_backups(env: Mapping[str, str]) -> BackupSettings:
    """ValueError names what is missing or out of its bounds."""
    if not env.get("BACKUP_DIR"):
        raise ValueError("BACKUP_DIR is not set: the folder of the backups")
    return BackupSettings(
        folder=Path(env["BACKUP_DIR"]).resolve(),
        database_url=env.get("BACKUP_DATABASE_URL", ""),
        every_h=_count(env, "BACKUP_EVERY_H", 24, 24 * 30),
        kept_days=_count(env, "BACKUP_KEPT_DAYS", 14, 3_650),
        copy_command=env.get("BACKUP_COPY_COMMAND", ""),
        programs=env.get("BACKUP_PROGRAMS", ""),
    )


def _count(env: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = env.get(name) or str(default)
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most}, not {text!r}")
    return int(text)
