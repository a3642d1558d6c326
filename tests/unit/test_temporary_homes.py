"""Temporary homes of tests are in memory while there is room; homes left there by a killed run are removed."""

import os
from pathlib import Path

import pytest

from tests.support import system
from tests.support.system import remove_home, temporary_home


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the in-memory file system, with enough free memory reported."""
    free = tmp_path / "meminfo"
    free.write_text("MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n", "ascii")
    monkeypatch.setattr(system, "_MEMORY", tmp_path)
    monkeypatch.setattr(system, "_MEMINFO", free)
    monkeypatch.setattr(system, "_ROOM_BYTES", 1 << 20)
    return tmp_path


def _new_home_is_in(memory: Path, *, on_disk: bool = False) -> bool:
    home = temporary_home(on_disk=on_disk)
    try:
        return home.is_relative_to(memory)
    finally:
        remove_home(home)


def test_a_home_is_in_memory_unless_it_must_be_on_a_disk(memory: Path) -> None:
    assert _new_home_is_in(memory)
    assert not _new_home_is_in(memory, on_disk=True)


def test_a_home_is_on_disk_where_there_is_no_room_in_memory(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (memory / "meminfo").write_text("MemAvailable: 1000 kB\n", "ascii")
    assert not _new_home_is_in(memory)
    (memory / "meminfo").unlink()
    assert not _new_home_is_in(memory)
    monkeypatch.setattr(system, "_MEMORY", memory / "none")
    assert not _new_home_is_in(memory)


def test_homes_that_a_killed_run_left_in_memory_are_removed_and_no_others(memory: Path) -> None:
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(ended, 0)
    left, ours = (memory / f"{system._HOME_PREFIX}{pid}-x" for pid in (ended, os.getpid()))
    others = memory / f"quita-of-1-{ended}-x"
    for each in (left, ours, others):
        (each / "home").mkdir(parents=True)
    assert _new_home_is_in(memory)
    assert (left.exists(), ours.exists(), others.exists()) == (False, True, True)
