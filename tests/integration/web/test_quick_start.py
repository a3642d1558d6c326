"""docs/quick_start.md: the commands and programs that it prints work as they are, in each of its languages."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.merchant import new_merchant
from tests.support.system import System
from web.documentation.guides import GUIDES, START

RUNNERS = {"sh": ("bash", "-euo", "pipefail"), "python": (sys.executable,), "javascript": ("node",), "php": ("php",)}
SUFFIXES = {"sh": "sh", "python": "py", "javascript": "mjs", "php": "php"}


@pytest.mark.parametrize("language", RUNNERS)
async def test_the_quick_start_ends_with_a_paid_charge(language: str, system: System, tmp_path: Path) -> None:
    if shutil.which(RUNNERS[language][0]) is None:
        pytest.skip(f"{RUNNERS[language][0]} is not installed here")
    blocks = re.findall(rf"^```{language} tab\n(.*?)^```$", GUIDES["pt"][START].text, re.M | re.S)
    assert len(blocks) == 3
    async with new_merchant(system) as merchant:
        test = merchant.record.test
        program = "\n".join(blocks)
        for name, value in {
            "{base_url}": system.base_url, "YOUR_CLIENT_ID": test.client_id, "YOUR_CLIENT_SECRET": test.client_secret,
            "YOUR_ACCOUNT_ID": merchant.sandbox.account_id,
        }.items():  # fmt: skip
            assert name in program
            program = program.replace(name, value)
        path = tmp_path / f"start.{SUFFIXES[language]}"
        path.write_text(program, encoding="utf-8")
        run = subprocess.run([*RUNNERS[language], str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert (run.returncode, run.stderr) == (0, ""), run.stdout
        assert "paid" in run.stdout.splitlines()[-1]
        (charge,) = await merchant.sandbox.all("/v1/charges")
        assert (charge["status"], charge["amount"], charge["external_id"]) == ("paid", "149.90", "order-1001")
