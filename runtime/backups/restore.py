"""Prepare the database as it was at an instant, for a PostgreSQL to be started on."""

import shlex
import tarfile
import zlib
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from runtime.backups.settings import BackupSettings
from runtime.backups.store import BaseBackup, Tell, archive, base_backups, unreadable, wal_folder
from runtime.backups.tools import BackupFailed

RESTORED = "quita.restored_to"
"""A setting of the restored server, by which every session sees that it was restored, and to which instant."""


class Restored(Struct, frozen=True):
    base: str
    to: datetime | None
    """None: to the end of the log."""
    folder: str


def restore(settings: BackupSettings, *, to: datetime | None, into: Path, wal: str | None, tell: Tell) -> Restored:
    """Unpack the newest base backup before `to` into an empty folder, and have the server that is started on it recover
    up to that instant. `wal`: the archive's place for that server, when it is not the place it has here."""
    for line in unreadable(settings):
        tell(line)
    base = _choose_base(settings, to)
    if into.exists() and any(into.iterdir()):
        raise BackupFailed(f"{into} is not empty: a database is restored into a folder of its own")
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    into.chmod(0o700)  # PostgreSQL starts with no other mode
    source = settings.folder / "base" / base.name
    for name, folder in (("base.tar.gz", into), ("pg_wal.tar.gz", into / "pg_wal")):
        tell(f"unpacking {base.name}/{name}")
        try:
            with tarfile.open(source / name) as packed:
                packed.extractall(folder, filter="tar")
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise BackupFailed(
                f"{source / name} is damaged ({error}): empty {into}, and rename {source}.json, so that the base backup"
                " before it is taken"
            ) from None
    for missing in archive(settings).holes:
        if missing[8:24] > base.first_segment[8:]:
            tell(f"the log is missing before {missing}: nothing that came after can be restored from {base.name}")
    archived = wal or str(wal_folder(settings))
    (into / "recovery.signal").touch(mode=0o600)
    with (into / "postgresql.auto.conf").open("a", encoding="utf-8") as conf:
        conf.write(
            "".join(f"{name} = '{_escape_quotes(value)}'\n" for name, value in _recovery_settings(archived, to).items())
        )
    return Restored(base.name, to, str(into))


def _choose_base(settings: BackupSettings, to: datetime | None) -> BaseBackup:
    bases = base_backups(settings)
    if not bases:
        raise BackupFailed(f"there is no base backup in {settings.folder}")
    before = [base for base in bases if to is None or base.ended_at <= to]
    if not before:
        raise BackupFailed(
            f"the oldest base backup ended at {bases[0].ended_at.astimezone(UTC).isoformat()}, after that instant"
        )
    return before[-1]


def _recovery_settings(archived: str, to: datetime | None) -> dict[str, str]:
    segment = f"{shlex.quote(archived).replace('%', '%%')}/%f"
    recovery = {
        # The segment that was being written when the server was lost is there as .partial, padded with zeros.
        "restore_command": f'cp {segment} "%p" 2>/dev/null || cp {segment}.partial "%p"',
        "recovery_target_action": "promote",
        RESTORED: "the end of the log" if to is None else to.astimezone(UTC).isoformat(),
    }
    if to is not None:
        recovery["recovery_target_time"] = to.astimezone(UTC).isoformat()
    return recovery


def _escape_quotes(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")
