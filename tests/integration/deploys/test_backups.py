"""A lost database is restored to its state at an instant, with the commands of an operator."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from readmodels.verify import verify
from runtime.backups.restore import RESTORED, restore
from runtime.backups.settings import BackupSettings, read_backups
from runtime.backups.store import BaseBackup, archive, base_backups, goes_on, is_late, prune
from runtime.backups.store import verify as compare
from runtime.backups.tools import BackupFailed
from runtime.local.embedded import EmbeddedPostgres
from sql.migrate import migrate
from tests.support.in_process import Api, open_api
from tests.support.system import ROOT, remove_home, temporary_home, until


@pytest.fixture
def lost() -> Iterator[EmbeddedPostgres]:
    """The cluster that a test loses."""
    home, postgres = temporary_home(), EmbeddedPostgres()
    try:
        postgres.start(home, fsync=False)
        yield postgres
    finally:
        postgres.stop()
        remove_home(home)


@pytest.fixture
def backups(tmp_path: Path, lost: EmbeddedPostgres) -> dict[str, str]:
    tmp_path.chmod(0o755)
    copied = tmp_path / "copied"
    return {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "BACKUP_DIR": str(tmp_path / "backups of ours"),
        "BACKUP_DATABASE_URL": lost.dsn, "BACKUP_COPY_COMMAND": f'rm -rf {copied}; cp -r "$BACKUP_DIR" {copied}',
    }  # fmt: skip


def quita(env: dict[str, str], *arguments: str, code: int = 0) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "backup", *arguments, "--json"],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout) if code == 0 or done.stdout else done.stderr


# By default the command looks once a minute.
_RUN_OFTEN = """
import sys
from cli.backups import backup
from cli.main import main

for name, value in {"_AGAIN_S": 0.5, "_CHECK_EVERY_S": 1.0}.items():
    assert hasattr(backup, name)
    setattr(backup, name, value)
sys.exit(main(["backup", "run"]))
"""


@contextlib.contextmanager
def backup_running(env: dict[str, str], folder: Path) -> Iterator[None]:
    """Runs `quita backup run`, looking once a second, until the block ends; asserts that it then exits with 0."""
    log = folder / "backup.log"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", _RUN_OFTEN], cwd=ROOT, env=env, stdout=out, stderr=out)
    try:
        yield
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(url)
    try:
        yield conn
    finally:
        await conn.close()


async def _wait_until_received(dsn: str) -> None:
    """Waits until the archive has received everything written so far."""
    async with connected(dsn) as conn:
        written = await conn.fetchval("SELECT pg_current_wal_insert_lsn()::text")

        async def received() -> bool:
            # An idle server writes its WAL buffers out when it is asked to switch the segment.
            await conn.execute("SELECT pg_switch_wal()")
            asked = "SELECT bool_or(flush_lsn >= $1::text::pg_lsn) FROM pg_stat_replication WHERE application_name = $2"
            return bool(await conn.fetchval(asked, written, "pg_receivewal"))

        for _ in range(200):
            if await received():
                return
            await conn.execute("SELECT pg_sleep(0.1)")
        raise AssertionError("the log is not received")


def start_restored_server(home: Path, archived: Path, lost_home: Path) -> EmbeddedPostgres:
    """Starts a server on the restored folder in `home`, with the passwords of the lost server; it is ready when it has
    recovered. A server started by root runs as another user, who can read the archive in `home`/postgres/wal."""
    for name in ("postgres.password", "postgres.app.password", "postgres.report.password"):
        shutil.copy(lost_home / name, home / name)
    shutil.copytree(archived, home / "postgres" / "wal")
    owner = (lost_home / "postgres" / "data").stat()
    for path in (home / "postgres", *(home / "postgres").rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    restored = EmbeddedPostgres()
    restored.start(home, fsync=False)
    return restored


async def _charge(api: Api) -> str:
    made: str = (await api.create())["charge_id"]
    return made


async def test_a_lost_database_is_restored_to_its_state_at_an_instant(
    servers: Any, lost: EmbeddedPostgres, backups: dict[str, str], tmp_path: Path
) -> None:
    """Charges created before the instant are restored, with their projections; charges created after it are not."""
    await migrate(lost.dsn, app_url=lost.app_dsn, report_url=lost.report_dsn)
    assert "there is no base backup" in quita(backups, "list", code=1)["late"]
    with backup_running(backups, tmp_path):
        async with open_api(lost.app_dsn, servers.redis_url) as api:
            in_base = await _charge(api)
            until(lambda: (tmp_path / "copied" / "base").is_dir() and base_backups(_settings(backups)), within_s=240)
            in_log = await _charge(api)
            async with connected(lost.dsn) as conn:
                instant = await conn.fetchval("SELECT clock_timestamp()")
            after = await _charge(api)
            await _wait_until_received(lost.dsn)
    assert quita(backups, "list")["late"] is None
    assert quita(backups, "verify")["faults"] == []
    os.kill(lost.pid, signal.SIGKILL)

    home = temporary_home()
    (home / "postgres").mkdir(mode=0o711, parents=True)
    into, wal = home / "postgres" / "data", home / "postgres" / "wal"
    told = quita(backups, "restore", "--to", instant.isoformat(), "--into", str(into), "--wal", str(wal))
    assert told["folder"] == str(into)
    restored = start_restored_server(home, tmp_path / "backups of ours" / "wal", lost._home)
    try:
        async with connected(restored.dsn) as conn:
            async with asyncio.timeout(60):  # The server answers reads before it has recovered.
                while await conn.fetchval("SELECT pg_is_in_recovery()"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            found = {str(row["charge_id"]) for row in await conn.fetch("SELECT charge_id FROM charge")}
            assert in_base in found
            assert in_log in found
            assert after not in found
            assert await conn.fetchval("SELECT current_setting($1, true)", RESTORED) == instant.isoformat()
        assert await migrate(restored.dsn, app_url=restored.app_dsn, report_url=restored.report_dsn) == []
        assert await verify(restored.app_dsn) == []
        async with open_api(restored.app_dsn, servers.redis_url) as api:
            assert await _charge(api) not in found
    finally:
        restored.stop()
        remove_home(home)


async def test_a_base_backup_taken_before_the_log_was_received_is_followed_by_a_usable_one(
    lost: EmbeddedPostgres, backups: dict[str, str], tmp_path: Path
) -> None:
    """A server without the replication slot, like a promoted standby, gets one."""
    quita(backups, "take")
    async with connected(lost.dsn) as conn:
        await conn.execute("CREATE TABLE written (n integer)")
        await conn.execute("SELECT pg_switch_wal()")
        settings = _settings(backups)
        with backup_running(backups, tmp_path):
            until(lambda: len(base_backups(settings)) == 2, within_s=240)
            assert quita(backups, "list")["late"] is None
            assert quita(backups, "verify", "--all")["faults"] == []

            await conn.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
            for _ in range(100):
                with contextlib.suppress(asyncpg.ObjectInUseError, asyncpg.UndefinedObjectError):
                    await conn.execute("SELECT pg_drop_replication_slot('quita_backup')")
                    break
                await asyncio.sleep(0.05)
            await asyncio.wait_for(_wait_until_received(lost.dsn), 60)
        assert quita(backups, "verify", "--all")["faults"] == []


def _settings(env: dict[str, str]) -> BackupSettings:
    return read_backups(env)


def _add_base_backup(folder: Path, name: str, ended_at: datetime, segment: str) -> None:
    (folder / "base" / name).mkdir(parents=True)
    made = BaseBackup(name, ended_at, ended_at, 1, segment)
    (folder / "base" / f"{name}.json").write_bytes(msgspec.json.encode(made))


_NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def _archive_settings(tmp_path: Path) -> BackupSettings:
    return read_backups({"BACKUP_DIR": str(tmp_path), "BACKUP_KEPT_DAYS": "7"})


def test_pruning_keeps_what_the_kept_days_need_and_deletes_the_rest(tmp_path: Path) -> None:
    """The newest base backup before the bound is kept: the first kept instants are restored from it."""
    for days, segment in ((20, "0B"), (9, "0D"), (8, "0E"), (1, "FF")):
        _add_base_backup(tmp_path, f"b{99 - days}", _NOW - timedelta(days=days), f"0000000100000000000000{segment}")
    (tmp_path / "wal").mkdir()
    names = ["0000000100000000000000" + number for number in ("0B", "0C", "0D", "0E", "0F")]
    for name in (*names, "00000002.history"):
        (tmp_path / "wal" / name).touch()
    settings = _archive_settings(tmp_path)
    assert prune(settings, now=_NOW) == ["b79", "b90"]
    assert [each.name for each in base_backups(settings)] == ["b91", "b98"]
    assert sorted(path.name for path in (tmp_path / "wal").iterdir()) == [*names[3:], "00000002.history"]
    assert prune(settings, now=_NOW) == []


def test_a_gap_in_the_log_is_reported(tmp_path: Path) -> None:
    (tmp_path / "wal").mkdir(parents=True)
    # After segment FF the next 32 bits of the name count up; a timeline begins where it branched off.
    for name in ("0000000100000000000000FE", "0000000100000000000000FF", "000000010000000100000000",
                 "000000010000000100000002", "000000020000000100000001.partial"):  # fmt: skip
        (tmp_path / "wal" / name).touch()
    settings = _archive_settings(tmp_path)
    assert archive(settings).holes == ["000000010000000100000002"]
    assert compare(settings, [], tell=print) == ["the log is missing before 000000010000000100000002"]


def test_a_restore_reports_a_truncated_base_backup_and_a_gap_in_the_log(tmp_path: Path) -> None:
    """A server that restores to the end of the log recovers as far as the gap, and opens without reporting it."""
    settings, told = _archive_settings(tmp_path), list[str]()
    _add_base_backup(tmp_path, "d01", _NOW, "000000010000000000000001")
    for name in ("base.tar.gz", "pg_wal.tar.gz"):
        with tarfile.open(tmp_path / "base" / "d01" / name, "w:gz") as packed:
            packed.add(ROOT / "README.md", "PG_VERSION")
    (tmp_path / "wal").mkdir()
    for number in (1, 2, 4):
        (tmp_path / "wal" / f"{1:08X}{number:016X}").touch()
    restore(settings, to=None, into=tmp_path / "whole", wal=None, tell=told.append)
    assert told[2:] == [
        "the log is missing before 000000010000000000000004: nothing that came after can be restored from d01"
    ]
    os.truncate(tmp_path / "base" / "d01" / "base.tar.gz", 500)
    with pytest.raises(BackupFailed, match=r"base\.tar\.gz is damaged .*rename .*d01\.json"):
        restore(settings, to=None, into=tmp_path / "cut", wal=None, tell=told.append)


def test_a_hanging_base_backup_blocks_neither_the_receiving_of_the_log_nor_a_shutdown(tmp_path: Path) -> None:
    """A base backup hangs when its server no longer answers, and takes hours for a large database."""
    programs, receiving = tmp_path / "programs", tmp_path / "receiving"
    programs.mkdir()
    for name, does in (
        ("pg_receivewal", f'case "$*" in *--create-slot*) ;; *) echo $$ >> {receiving}; exec sleep 600;; esac'),
        ("pg_basebackup", f"touch {tmp_path}/begun; exec sleep 600"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    env = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "BACKUP_DIR": str(tmp_path / "kept"),
        "BACKUP_DATABASE_URL": "postgresql://127.0.0.1/quita", "BACKUP_PROGRAMS": str(programs),
    }  # fmt: skip
    running = subprocess.Popen([sys.executable, "-m", "cli.main", "backup", "run"], cwd=ROOT, env=env)
    try:
        until((tmp_path / "begun").exists, what="the base backup is begun")
        until(receiving.exists, what="the log is received")
        os.kill(int(receiving.read_text()), signal.SIGKILL)
        until(lambda: receiving.read_text().count("\n") == 2, what="the log is received again")
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.wait()


def test_an_archive_that_receives_nothing_is_late(tmp_path: Path) -> None:
    settings = _archive_settings(tmp_path)
    _add_base_backup(tmp_path, "d01", _NOW, "000000010000000000000001")
    (tmp_path / "wal").mkdir()
    assert is_late(settings, now=_NOW) == "the log is not received"
    segment = tmp_path / "wal" / "000000010000000000000001.partial"
    segment.touch()
    os.utime(segment, (_NOW.timestamp(),) * 2)
    assert is_late(settings, now=_NOW) is None
    assert is_late(settings, now=_NOW + timedelta(minutes=16)) == "the log is not received"
    assert "newest base backup" in (is_late(settings, now=_NOW + timedelta(days=3)) or "")


def test_a_base_backup_that_the_log_does_not_continue_is_reported(tmp_path: Path) -> None:
    settings = _archive_settings(tmp_path)
    _add_base_backup(tmp_path, "d01", _NOW, "000000010000000000000002")
    (tmp_path / "wal").mkdir()
    assert goes_on(settings), "before anything is received no gap can be known"
    segment = tmp_path / "wal" / "000000010000000000000005.partial"
    segment.touch()
    os.utime(segment, (_NOW.timestamp(),) * 2)
    assert not goes_on(settings)
    told = "what came after d01 cannot be restored"
    assert told in (is_late(settings, now=_NOW) or "")
    assert told in compare(settings, [], tell=print)[0]


@pytest.mark.parametrize("described", [b"", b'{"name":"d02","began_at":"2026-', b'{"name":"\xff"}'])
def test_a_base_backup_whose_description_cannot_be_read_is_named_and_hides_no_other(
    tmp_path: Path, described: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure before the few bytes are on disk leaves such a file."""
    from cli.main import main

    monkeypatch.setenv("BACKUP_DIR", str(tmp_path))
    for name in ("d01", "d02"):
        _add_base_backup(tmp_path, name, _NOW, "000000010000000000000001")
    broken = tmp_path / "base" / "d02.json"
    broken.write_bytes(described)
    assert main(["backup", "list"]) == 1
    shown = capsys.readouterr().out
    assert "d01  ended 2026-11-20" in shown
    assert f"{broken} cannot be read" in shown
    assert f"{broken} cannot be read" in compare(_archive_settings(tmp_path), [], tell=print)[0]
    assert prune(_archive_settings(tmp_path), now=_NOW + timedelta(days=30)) == []


@pytest.mark.parametrize("name", ["BACKUP_EVERY_H", "BACKUP_KEPT_DAYS"])
@pytest.mark.parametrize("given", ["0", "-1", "1.5", "a day", "1000000"])
def test_an_invalid_setting_is_refused_by_its_name(tmp_path: Path, name: str, given: str) -> None:
    with pytest.raises(ValueError, match=name):
        read_backups({"BACKUP_DIR": str(tmp_path), name: given})


def test_every_setting_of_backups_is_documented_for_operators() -> None:
    told = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    names = {"folder": "DIR", "programs": "PROGRAMS"}
    for field in BackupSettings.__struct_fields__:
        assert f"`BACKUP_{names.get(field, field.upper())}`" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("restore", "--to", "2026-01-01T00:00:00", "--into", "x"), "with its offset"),
        (("restore", "--to", "2026-01-01T00:00:00Z", "--into", "x"), "there is no base backup"),
        (("verify",), "there is no base backup"),
        (("take",), "BACKUP_DATABASE_URL is not set"),
    ],
)
def test_a_command_that_cannot_be_run_says_why(
    tmp_path: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from cli.main import main

    monkeypatch.setenv("BACKUP_DIR", str(tmp_path))
    monkeypatch.delenv("BACKUP_DATABASE_URL", raising=False)
    assert main(["backup", *arguments]) == 1
    *progress, fault = capsys.readouterr().err.splitlines()
    assert fault.startswith("quita: ")
    assert said in fault
    assert all(line.startswith("taking ") for line in progress)


def test_a_restore_into_a_folder_that_is_not_empty_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cli.main import main

    _add_base_backup(tmp_path, "d01", _NOW, "000000010000000000000001")
    monkeypatch.setenv("BACKUP_DIR", str(tmp_path))
    assert main(["backup", "restore", "--to", "latest", "--into", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert main(["backup", "restore", "--to", "2026-11-19T12:00:00Z", "--into", str(tmp_path / "x")]) == 1
    assert "the oldest base backup ended at 2026-11-20T12:00:00" in capsys.readouterr().err
