"""Promises about running the system: one clear line when it cannot start, and nothing lost however it ends."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.local.ports import free_port
from tests.support.system import ROOT, TWO_APIS, System, remove_home, temporary_home, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def breakable() -> Iterator[System]:
    """A system that tests may break and leave running. Its path has a folder with spaces, one with a long name, and one
    that other users may not enter."""
    top = temporary_home()
    home = top / "a folder with spaces" / ("long" * 40) / "home"
    home.parent.mkdir(parents=True)
    top.chmod(0o700)
    system = System(home)
    try:
        yield system
        if system.running():
            assert system.stop() == 0, system.said()
    finally:
        if system.running():
            system.kill()
        remove_home(top)


@pytest.fixture
def own_system(breakable: System) -> System:
    """The system of the fixture `breakable`, running."""
    return breakable if breakable.running() else breakable.start()


@pytest.fixture(scope="module")
def running() -> Iterator[System]:
    """A system that is whole again after each test: it repairs by itself what a test breaks."""
    home = temporary_home()
    system = System(home, env=TWO_APIS).start()
    try:
        yield system
        assert system.stop() == 0, system.said()
    finally:
        if system.running():
            system.kill()
        remove_home(home)


def _start_refused(home: Path, **env: str) -> str:
    """Starts a system, which must fail; returns the one line that it prints."""
    system = System(home, env=env)
    system.spawn()
    assert system.process.wait(60) == 1
    said = system.said().strip()
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1, said
    return said


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2] == "Z"
    except OSError:
        return True


def _ready(system: System) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{system.port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_taken_port_is_named_at_start(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"port {port}" in _start_refused(home, PORT=port)


def test_a_taken_port_of_the_bank_is_named_at_start(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"port {port}" in _start_refused(home, BANK_PORT=port)


def test_an_unreachable_database_is_named_at_start_without_its_password(home: Path) -> None:
    said = _start_refused(home, DATABASE_URL=f"postgresql://u:pssst@127.0.0.1:{free_port()}/x")
    assert "DATABASE_URL" in said
    assert "pssst" not in said


def test_an_unreachable_redis_is_named_at_start(home: Path) -> None:
    assert "REDIS_URL" in _start_refused(home, REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"), ("PORT", "70000"), ("SECRET_KEY", "short"), ("BANK_PORT", "70000"), ("API_PROCESSES", "0"),
        ("WEBHOOK_DELAYS_S", "soon"), ("WEBHOOK_JITTER", "nan"),
    ],
)  # fmt: skip
def test_an_invalid_setting_is_named_at_start(home: Path, name: str, value: str) -> None:
    assert name in _start_refused(home, **{name: value})


@pytest.mark.parametrize("version", ["2.7.18", "3.10.13"])
def test_an_old_python_is_refused_by_its_version(version: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bootstrap.py")],
        env=os.environ | {"QUITA_PRETEND_PYTHON": version},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert version in done.stderr


def test_make_up_without_python_states_what_it_needs() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "up", "PYTHON=no-such-python"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == "quita needs python3 (3.11 or newer) on the PATH"


def test_a_second_supervisor_in_the_same_home_is_refused(running: System) -> None:
    assert "already runs" in running.quita("up").stderr
    until(lambda: _ready(running))


@pytest.mark.parametrize("kind", ["api", "worker", "bank", "postgres", "redis"])
def test_a_process_that_was_killed_is_started_again(running: System, kind: str) -> None:
    old = running.pids(kind)
    os.kill(old[0], signal.SIGKILL)
    until(lambda: len(running.pids(kind)) == len(old) and old[0] not in running.pids(kind), what=f"another {kind}")
    until(lambda: _ready(running), what="ready again")


def test_the_port_answers_while_an_api_process_is_replaced(running: System) -> None:
    for _ in range(2):
        before = running.pids("api")
        os.kill(before[0], signal.SIGKILL)
        until(lambda: before[0] not in running.pids("api"))  # noqa: B023
        for _ in range(40):
            socket.create_connection(("127.0.0.1", running.port), 30).close()
        until(lambda: _ready(running))


def test_two_homes_run_side_by_side(running: System, own_system: System) -> None:
    until(lambda: _ready(running))
    until(lambda: _ready(own_system))
    assert running.database_url != own_system.database_url


def test_a_system_runs_in_a_home_with_spaces_and_a_long_closed_path(own_system: System) -> None:
    assert own_system.status()["ready"] is True


def test_ctrl_c_stops_cleanly_and_a_second_start_finds_all_data(running: System, own_system: System) -> None:
    """`python -m bench start` measures how long this takes: on a shared machine a test cannot assert a time."""
    first = own_system.dev
    made = own_system.create_merchant()
    pids = [pid for pids in own_system.run_json()["pids"].values() for pid in pids]
    own_system.process.send_signal(signal.SIGINT)
    assert own_system.process.wait(60) == 0
    assert all(_gone(pid) for pid in pids)
    assert own_system.quita("status").returncode == 1
    until(lambda: _ready(running))
    said = len(own_system.said())
    own_system.start()
    assert "migrated" not in own_system.said()[said:]
    assert own_system.dev == first
    assert own_system.quita("merchant", "approve", made["account_id"]).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals children when their parent dies")
def test_kill_9_of_the_supervisor_leaves_no_process_and_loses_no_data(own_system: System) -> None:
    made = own_system.create_merchant()
    pids = [pid for kind in ("api", "worker", "bank", "postgres", "redis") for pid in own_system.pids(kind)]
    own_system.kill()
    own_system.start()  # at once, while the old processes are still ending
    assert own_system.quita("merchant", "approve", made["account_id"]).returncode == 0
    until(lambda: all(_gone(pid) for pid in pids), what="old processes end")


def test_kill_9_of_every_process_loses_no_data(own_system: System) -> None:
    made = own_system.create_merchant()
    pids = [pid for pids in own_system.run_json()["pids"].values() for pid in pids]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # the process ended with its parent, which was killed first
            os.kill(pid, signal.SIGKILL)
    own_system.process.wait(30)
    own_system.start()
    assert own_system.quita("merchant", "approve", made["account_id"]).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="every other test of this run runs as a plain user already")
def test_a_plain_user_runs_a_copy_of_the_checkout() -> None:
    import pwd

    nobody = pwd.getpwnam("nobody")
    top = temporary_home(on_disk=True).parent
    checkout, site, base = top / "checkout of nobody", top / "site", top / "python"
    packages = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("*/*.py") if not path.parent.name.startswith(".")}
    packages.add("docs")  # some files of docs are served
    for package in packages:
        shutil.copytree(ROOT / package, checkout / package)
    # Compiled files are copied too. Without them, processes that start together would each compile all modules, and do
    # so again at each start in folders that this user may not write to.
    installed, unused = Path(sysconfig.get_path("purelib")), shutil.ignore_patterns("quita.pth", "kubernetes_validate")
    # 18,000 files, without the half that only a test reads. On one file system hard links replace copies: a link is the
    # same file with the same rights.
    copied = os.link if installed.stat().st_dev == top.stat().st_dev else shutil.copy2
    shutil.copytree(installed, site, symlinks=True, ignore=unused, copy_function=copied)
    # Root's Python may be in a folder that the user nobody may not enter, so Python is copied as well.
    library = Path(sysconfig.get_path("stdlib"))
    unused = shutil.ignore_patterns("site-packages", "dist-packages", "test", "config-*", "idlelib")
    shutil.copytree(library, base / "lib" / library.name, symlinks=True, ignore=unused)
    for shared in Path(sys.base_prefix, "lib").glob("libpython*"):
        shutil.copy2(shared, base / "lib" / shared.name)
    (base / "bin").mkdir()
    interpreter = shutil.copy2(Path(sys.executable).resolve(), base / "bin" / "python3")
    for path in (top, checkout, *checkout.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    home = checkout / ".quita"
    env = {
        "PATH": os.defpath, "HOME": "/nonexistent", "QUITA_HOME": str(home), "QUITA_FSYNC": "off",
        "PORT": str(free_port()), "PYTHONHOME": str(base), "LD_LIBRARY_PATH": str(base / "lib"),
        "PYTHONPATH": f"{checkout}{os.pathsep}{site}",
    }  # fmt: skip
    try:
        with (top / "out").open("wb") as out:
            started = subprocess.Popen(
                [interpreter, "-m", "cli.main", "up"], cwd=checkout, env=env, stdout=out, stderr=out,
                user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[],
            )  # fmt: skip
        until(lambda: (home / "dev.json").exists() or started.poll() is not None, within_s=90)
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0, (top / "out").read_text(encoding="utf-8")
        assert (home / "postgres").stat().st_uid == nobody.pw_uid
    finally:
        shutil.rmtree(top, ignore_errors=True)
