"""`quita backup run|take|list|verify|restore`: backups from which the database can be restored to any instant of the
last days."""

import argparse
import os
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from cli.answer import Commands, answer, family, tell
from cli.run.child import CannotRun

if TYPE_CHECKING:
    from runtime.backups.settings import BackupSettings
    from runtime.backups.tools import Meanwhile

_CHECK_EVERY_S: Final = 60.0
_STOP_S_MAX: Final = 20.0
_AGAIN_S: Final = 5.0


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "backup", "base backups and the log of the database, in BACKUP_DIR")
    run_ = verbs.add_parser("run", help="receive the log without a pause, and take a base backup every BACKUP_EVERY_H")
    run_.set_defaults(run=run)
    verbs.add_parser("take", help="take a base backup now").set_defaults(run=take)
    list_ = verbs.add_parser("list", help="what is there; exit 1 when it is not what it should be")
    list_.set_defaults(run=show)
    verify_ = verbs.add_parser(
        "verify", help="compare checksums and look for holes in the log; exit 1 when some is wrong"
    )
    verify_.add_argument("--all", action="store_true", help="every base backup, not the newest alone")
    verify_.set_defaults(run=verify)
    restore_ = verbs.add_parser("restore", help="lay out the database as it was at an instant, to start a server on")
    restore_.add_argument("--to", required=True, metavar="INSTANT", help="2026-01-31T12:00:00Z, or `latest`")
    restore_.add_argument("--into", required=True, type=Path, metavar="FOLDER", help="empty; becomes the data folder")
    restore_.add_argument("--wal", metavar="FOLDER", help="where that server will find BACKUP_DIR/wal, if elsewhere")
    restore_.set_defaults(run=restore)


def take(args: argparse.Namespace) -> int:
    from runtime.backups import store
    from runtime.backups.tools import copy

    settings = _settings()
    base = store.take(settings, now=_now, tell=tell)
    copy(settings)
    return answer(args, base)


def show(args: argparse.Namespace) -> int:
    from runtime.backups import store

    settings = _settings()
    bases, log, late = store.base_backups(settings), store.archive(settings), store.is_late(settings, now=_now())
    unreadable = store.unreadable(settings)
    if args.json:
        answer(args, {"base_backups": bases, "unreadable": unreadable, "log": log, "late": late})
    else:
        for base in bases:
            print(f"{base.name}  ended {_instant_text(base.ended_at)}  {base.bytes} bytes  from {base.first_segment}")
        newest = "" if log.newest_at is None else f", the newest {log.newest} of {_instant_text(log.newest_at)}"
        print(f"log: {log.segments} segments{newest}")
        for line in (*unreadable, *filter(None, [late])):
            print(line)
    return 1 if late or unreadable else 0


def verify(args: argparse.Namespace) -> int:
    from runtime.backups import store

    settings = _settings()
    bases = store.base_backups(settings)
    if not bases and not store.unreadable(settings):
        raise CannotRun("there is no base backup")
    chosen = bases if args.all else bases[-1:]
    faults = store.verify(settings, chosen, tell=tell)
    if args.json:
        answer(args, {"verified": [base.name for base in chosen], "faults": faults})
    else:
        print("\n".join(faults) or "clean")
    return 1 if faults else 0


def restore(args: argparse.Namespace) -> int:
    from runtime.backups.restore import restore as lay_out

    to = None if args.to == "latest" else _instant(args.to)
    restored = lay_out(_settings(), to=to, into=args.into.absolute(), wal=args.wal, tell=tell)
    tell("start PostgreSQL on it: it recovers by itself. Then `quita migrate`, and docs/operations/backups.md goes on")
    return answer(args, msgspec.structs.asdict(restored))


def run(_: argparse.Namespace) -> int:
    from runtime.backups.tools import BackupFailed

    settings = _settings()
    # Both signals interrupt any wait: a base backup takes hours, or for ever when the server hangs.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    receiver = _LogReceiver(settings)

    def keep_receiving() -> None:
        # Called during a base backup, a verification or a copy; a failure here must not end these.
        try:
            receiver.keep()
        except (BackupFailed, OSError) as error:
            tell(str(error))

    next_check = 0.0
    try:
        while True:
            try:
                receiver.keep()
                if time.monotonic() >= next_check:
                    try:
                        _take_if_due(settings, keep_receiving)
                    finally:
                        next_check = time.monotonic() + _CHECK_EVERY_S
            except (BackupFailed, OSError) as error:
                tell(str(error))  # tried again; monitoring sees it in the exit code of `quita backup list`
            time.sleep(_AGAIN_S)
    except KeyboardInterrupt:
        return 0
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        receiver.end()


class _LogReceiver:
    """A running pg_receivewal. BackupFailed when it cannot be started."""

    def __init__(self, settings: "BackupSettings") -> None:
        self._settings = settings
        self._process = _start_receiver(settings)

    def keep(self) -> None:
        """Restarts pg_receivewal if it has ended: the log written meanwhile would exist on the server alone."""
        if self._process.poll() is not None:
            tell(f"pg_receivewal ended with {self._process.returncode}; starting it again")
            self._process = _start_receiver(self._settings)

    def end(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start_receiver(settings: "BackupSettings") -> "subprocess.Popen[bytes]":
    """Starts pg_receivewal. Its replication slot makes the server keep all log that was not received yet, however long
    the receiver is away."""
    from runtime.backups.store import wal_folder
    from runtime.backups.tools import BackupFailed, start

    wal_folder(settings).mkdir(mode=0o700, parents=True, exist_ok=True)
    slot_maker = start(settings, "pg_receivewal", "--slot=quita_backup", "--create-slot", "--if-not-exists")
    if slot_maker.wait() != 0:
        raise BackupFailed("the slot quita_backup cannot be made: see above")
    # Without --no-loop it would retry for ever when the server is a promoted standby, which does not have the slot.
    return start(
        settings, "pg_receivewal", "-D", str(wal_folder(settings)), "--slot=quita_backup", "--synchronous", "--no-loop"
    )


def _take_if_due(settings: "BackupSettings", meanwhile: "Meanwhile") -> None:
    from runtime.backups import store
    from runtime.backups.tools import copy

    bases = store.base_backups(settings)
    # Also when the log begins only after the newest base backup: that one can be restored to its own end alone.
    late = not bases or bases[-1].began_at <= _now() - timedelta(hours=settings.every_h)
    if late or not store.goes_on(settings):
        base = store.take(settings, now=_now, tell=tell, meanwhile=meanwhile)
        for fault in store.verify(settings, [base], tell=tell, meanwhile=meanwhile):
            tell(f"FAULT {fault}")
    copy(settings, meanwhile=meanwhile)


def _settings() -> "BackupSettings":
    from runtime.backups.settings import read_backups

    try:
        return read_backups(os.environ)
    except ValueError as error:
        raise CannotRun(str(error)) from None


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise CannotRun("--to takes an instant with its offset, such as 2026-01-31T12:00:00Z, or `latest`")
    return instant


def _instant_text(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _now() -> datetime:
    return datetime.now(UTC)
