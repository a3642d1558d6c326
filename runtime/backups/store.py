"""The folder of backups. `base/NAME` holds a base backup as pg_basebackup wrote it, `base/NAME.json` when it was taken;
`wal/` holds the segments of the write-ahead log as pg_receivewal writes them, the newest as `.partial`.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from runtime.backups.settings import BackupSettings
from runtime.backups.tools import BackupFailed, Meanwhile, nothing, program, start, wait

LATE: Final = timedelta(minutes=15)
"""The time without a byte of the log after which it counts as not received: workers write every second."""
_SEGMENT: Final = re.compile(r"([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})(\.partial)?")

Tell = Callable[[str], None]


class BaseBackup(Struct, frozen=True):
    name: str
    began_at: datetime
    ended_at: datetime
    """From this instant on, any instant can be restored."""
    bytes: int
    first_segment: str
    """The segment of the log at which its recovery begins."""
    alone: bool = False
    """The log was not received when it was taken: it may be good for its own end and no instant after it."""


class Archive(Struct, frozen=True):
    """The part of the log that is there. `holes`: segments before which others are missing."""

    segments: int
    newest: str | None
    newest_at: datetime | None
    holes: list[str]


class _Range(Struct, rename={"timeline": "Timeline", "start": "Start-LSN"}):
    timeline: int
    start: str


class _Manifest(Struct, rename={"ranges": "WAL-Ranges"}):
    ranges: list[_Range]


def wal_folder(settings: BackupSettings) -> Path:
    return settings.folder / "wal"


def take(
    settings: BackupSettings, *, now: Callable[[], datetime], tell: Tell, meanwhile: Meanwhile = nothing
) -> BaseBackup:
    """Take a base backup, and remove those that are kept no longer. BackupFailed when pg_basebackup fails."""
    began_at = now().astimezone(UTC).replace(microsecond=0)
    name = f"{began_at:%Y%m%dT%H%M%SZ}"
    final = settings.folder / "base" / name
    if final.exists():
        raise BackupFailed(f"{name} is there already: one base backup a second")
    partial = final.with_name(f"{name}.partial")
    _prepare_base_folder(final.parent)
    tell(f"taking {name}")
    process = start(
        settings, "pg_basebackup", "-D", str(partial), "--format=tar", "--gzip", "--wal-method=stream",
        "--checkpoint=fast", f"--label=quita {name}", "--progress",
    )  # fmt: skip
    wait(process, meanwhile)
    if process.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        raise BackupFailed(f"pg_basebackup ended with {process.returncode}; no base backup was taken")
    log = msgspec.json.decode((partial / "backup_manifest").read_bytes(), type=_Manifest).ranges[0]
    size = sum(path.stat().st_size for path in partial.iterdir())
    first = _segment_name(log)
    base = BaseBackup(name, began_at, now().astimezone(UTC), size, first, alone=not _has_segment(settings, first))
    final.with_name(f"{name}.json").write_bytes(msgspec.json.encode(base))
    partial.rename(final)
    for pruned in prune(settings, now=now()):
        tell(f"{pruned} went: it is older than {settings.kept_days} days")
    return base


def base_backups(settings: BackupSettings) -> list[BaseBackup]:
    """The base backups, oldest first; without those that were cut off, or whose time cannot be read (`unreadable`)."""
    return [base for path in _description_files(settings) if (base := _read_base(path)) is not None]


def unreadable(settings: BackupSettings) -> list[str]:
    """The files of `base/` that cannot be read, as after a loss of power; a line each. Their base backups are neither
    restored from nor removed."""
    return [
        f"{path} cannot be read, so that base backup counts as none: take another one, and remove it and its folder"
        for path in _description_files(settings)
        if _read_base(path) is None
    ]


def archive(settings: BackupSettings) -> Archive:
    names = _segment_names(settings)
    newest = max(wal_folder(settings).glob("*"), key=lambda path: path.stat().st_mtime, default=None)
    return Archive(
        segments=len(names),
        newest=names[-1] if names else None,
        newest_at=None if newest is None else datetime.fromtimestamp(newest.stat().st_mtime, UTC),
        holes=_segments_after_holes(settings, names),
    )


def verify(
    settings: BackupSettings, bases: Iterable[BaseBackup], *, tell: Tell, meanwhile: Meanwhile = nothing
) -> list[str]:
    """The faults of these base backups, and of the log from the oldest one on; a line each."""
    faults = []
    for base in bases:
        tell(f"verifying {base.name}")
        # Compressed tar files: pg_verifybackup checks each file's checksum, and cannot read the log in them.
        process = subprocess.Popen(  # noqa: S603
            [program(settings, "pg_verifybackup"), "--no-parse-wal", str(settings.folder / "base" / base.name)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        stderr = wait(process, meanwhile)
        if process.returncode:
            faults.append(f"{base.name}: {' '.join(stderr.split())[:300]}")
    log = archive(settings)
    faults += [f"the log is missing before {name}" for name in log.holes]
    faults += unreadable(settings)
    bases_kept = base_backups(settings)
    # Where an older one fails, the newest serves. One taken while the log was not received was never to go on from.
    needed = {base.name: base for base in [*[base for base in bases_kept if not base.alone][:1], *bases_kept[-1:]]}
    for base in needed.values():
        if not _has_segment(settings, base.first_segment):
            faults.append(f"what came after {base.name} cannot be restored: {base.first_segment} of the log is missing")
    return faults


def goes_on(settings: BackupSettings) -> bool:
    """Whether the log goes on from the newest base backup; False when it begins after that, and another is needed."""
    bases, names = base_backups(settings), _segment_names(settings)
    return not bases or not names or min(name[8:24] for name in names) <= bases[-1].first_segment[8:]


def _has_segment(settings: BackupSettings, segment: str) -> bool:
    return any((wal_folder(settings) / name).exists() for name in (segment, f"{segment}.partial"))


def prune(settings: BackupSettings, *, now: datetime) -> list[str]:
    """Remove base backups that no kept instant needs, and the log before the oldest that is left."""
    bases = base_backups(settings)
    # The newest of those older than the bound stays: the first kept instants are restored from it.
    old = [base for base in bases if base.ended_at < now - timedelta(days=settings.kept_days)][:-1]
    for base in old:
        folder = settings.folder / "base" / base.name
        folder.with_name(f"{base.name}.json").unlink()
        shutil.rmtree(folder)
    if old:
        first = bases[len(old)].first_segment
        for path in wal_folder(settings).glob("*"):
            # By the place in the log, on any timeline, as pg_archivecleanup does; timelines' histories are kept.
            if (match := _SEGMENT.fullmatch(path.name)) and match[2] + match[3] < first[8:]:
                path.unlink()
    return [base.name for base in old]


def is_late(settings: BackupSettings, *, now: datetime) -> str | None:
    """The reason why a restore would fall short of what it should be; None when there is none."""
    bases, log = base_backups(settings), archive(settings)
    if not bases:
        return "there is no base backup"
    if bases[-1].ended_at < now - 2 * timedelta(hours=settings.every_h):
        return f"the newest base backup is of {bases[-1].ended_at:%Y-%m-%d %H:%M} UTC"
    if log.newest_at is None or log.newest_at < now - LATE:
        return "the log is not received"
    if not goes_on(settings):
        return f"what came after {bases[-1].name} cannot be restored: the log begins after it"
    return None


def _description_files(settings: BackupSettings) -> list[Path]:
    return [path for path in sorted((settings.folder / "base").glob("*.json")) if path.with_suffix("").is_dir()]


def _read_base(description: Path) -> BaseBackup | None:
    try:
        return msgspec.json.decode(description.read_bytes(), type=BaseBackup)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _segment_names(settings: BackupSettings) -> list[str]:
    return sorted(path.name for path in wal_folder(settings).glob("*") if _SEGMENT.fullmatch(path.name))


def _segment_name(log: _Range) -> str:
    """The segment of 16 MB in which a position lies."""
    high, low = (int(part, 16) for part in log.start.split("/"))
    return f"{log.timeline:08X}{high:08X}{low >> 24:08X}"


def _segments_after_holes(settings: BackupSettings, names: list[str]) -> list[str]:
    """Segments that do not follow the one before them, on each timeline from the oldest base backup on."""
    first = min((base.first_segment[8:] for base in base_backups(settings)), default="")
    after_holes, last_places = [], dict[str, int]()
    for name in names:
        match = _SEGMENT.fullmatch(name)
        assert match is not None, "only segments are listed"
        if match[2] + match[3] < first:
            continue
        place = int(match[2], 16) * 256 + int(match[3], 16)
        if match[1] in last_places and place > last_places[match[1]] + 1:
            after_holes.append(name)
        last_places[match[1]] = place
    return after_holes


def _prepare_base_folder(folder: Path) -> None:
    """Make the folder, and remove base backups that were cut off."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.glob("*.partial"):
        shutil.rmtree(path, ignore_errors=True)
