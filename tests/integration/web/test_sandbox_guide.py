"""docs/sandbox.md: the commands that it prints work as they are, from the first line to the last."""

import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.support.boleto_merchant import in_days, issue_boleto
from tests.support.merchant import new_merchant
from tests.support.system import System

GUIDE = Path(__file__).parents[3] / "docs" / "sandbox.md"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")


async def test_the_commands_of_the_guide_do_what_it_says(system: System) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 4
    first, clock, boleto, refusing = (block.replace("{base_url}", system.base_url) for block in blocks)
    async with new_merchant(system) as merchant:
        client, test = merchant.sandbox, merchant.record.test
        known = {
            "CLIENT_ID": test.client_id,
            "CLIENT_SECRET": test.client_secret,
            "ACCOUNT_ID": client.account_id,
            "BOLETO_ID": (await issue_boleto(client, dataVencimento=in_days(1)))["charge_id"],
            "TOKEN": await client.token(),
        }

        def run_commands(block: str) -> list[dict[str, object]]:
            """The answers of the commands, one object each."""
            # Each answer is a JSON object without a newline after it.
            said = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block], env={"PATH": "/usr/bin:/bin", **known},
                capture_output=True, text=True, timeout=60, check=True,
            ).stdout  # fmt: skip
            return [
                msgspec.json.decode(each) for each in re.sub(r"\}\{\"", '}\n{"', said).splitlines() if each[:1] == "{"
            ]

        paid, feed = run_commands(first)
        assert (paid["status"], paid["external_id"]) == ("paid", "order-1001")
        assert [event["charge_id"] for event in feed["data"]] == [paid["charge_id"]]  # type: ignore[attr-defined]
        before, after = run_commands(clock)
        assert (before["advanced_seconds"], after["advanced_seconds"]) == (0, 259_200)
        assert datetime.fromisoformat(str(after["now"])) > datetime.now(UTC)
        further, expired, late = run_commands(boleto)
        assert further["advanced_seconds"] == 13 * 86_400
        assert (expired["status"], late["status"]) == ("expired", "paid")
        assert late["payment"]["late"] is True  # type: ignore[index]
        (made,) = run_commands(refusing)
        assert made["status"] == "pending"
