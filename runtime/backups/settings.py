"""The place of backups, and how long they are kept (docs/operations/backups.md): settings of the process that makes
them, which needs neither SECRET_KEY nor any other setting of the API."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from runtime.limits.variables import whole_number


class BackupSettings(Struct, frozen=True, kw_only=True):
    folder: Path
    """BACKUP_DIR: base backups and the archive of the write-ahead log; on another disk than the database's."""
    database_url: str
    """BACKUP_DATABASE_URL: of a role with REPLICATION, at the server itself."""
    every_h: int
    """BACKUP_EVERY_H: hours after which `quita backup run` takes another base backup."""
    kept_days: int
    """BACKUP_KEPT_DAYS: how far back a restore can go."""
    copy_command: str
    """BACKUP_COPY_COMMAND: run by the shell after each change, to copy the folder elsewhere; none unless given."""
    programs: str
    """BACKUP_PROGRAMS: the folder of PostgreSQL's own programs, of the server's major version."""

    def __repr__(self) -> str:
        return f"BackupSettings(folder={str(self.folder)!r})"


def read_backups(env: Mapping[str, str]) -> BackupSettings:
    """ValueError names the variable that is missing or out of its bounds."""
    if not env.get("BACKUP_DIR"):
        raise ValueError("BACKUP_DIR is not set: the folder of the backups")
    return BackupSettings(
        folder=Path(env["BACKUP_DIR"]).resolve(),
        database_url=env.get("BACKUP_DATABASE_URL", ""),
        every_h=whole_number(env, "BACKUP_EVERY_H", 1, 24 * 30) or 24,
        kept_days=whole_number(env, "BACKUP_KEPT_DAYS", 1, 3_650) or 14,
        copy_command=env.get("BACKUP_COPY_COMMAND", ""),
        programs=env.get("BACKUP_PROGRAMS", ""),
    )
