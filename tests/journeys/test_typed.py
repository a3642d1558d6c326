"""The documentation's code blocks, copied into a shell one after the other, give the results that the pages state."""

import asyncio
import re
import shutil
import subprocess
from html import unescape
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.support.merchant import ApiClient, new_merchant, until_answer
from tests.support.system import System

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")

# The separator that the shell prints after each block, and the variables whose values it prints then.
_END = "\x1e"
_KNOWN = ("TOKEN", "CHARGE_ID")


class Shell:
    """Bash with curl only, as on a fresh machine. Variables that a block sets are known to the next block."""

    def __init__(self, **known: str) -> None:
        self._known = known

    async def type(self, block: str) -> str:
        """Run a block with the reader's placeholders filled in. Asserts that it succeeds; returns its output."""
        for name in ("CLIENT_ID", "CLIENT_SECRET", "ACCOUNT_ID"):
            block = block.replace(f"YOUR_{name}", self._known[name])
        said = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-euo", "pipefail", "-c", block + "".join(f'\nprintf "{_END}%s" "${{{n}:-}}"' for n in _KNOWN)],
            env={"PATH": "/usr/bin:/bin", **self._known}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert said.returncode == 0, (block, said.stderr)
        printed, *values = said.stdout.split(_END)
        self._known |= {name: value for name, value in zip(_KNOWN, values, strict=True) if value}
        return printed

    async def answer(self, block: str) -> dict[str, Any]:
        """Run a block that prints JSON. Asserts that it is no error; returns it."""
        answered: dict[str, Any] = msgspec.json.decode(await self.type(block))
        assert "error" not in answered, (block, answered)
        return answered


async def blocks_of(system: System, page: str) -> list[str]:
    """The blocks of a page that call the API, as its copy button copies them."""
    async with aiohttp.ClientSession() as http, http.get(system.docs_url + page) as answer:
        assert answer.status == 200
        found = re.findall(r"<pre[^>]*><code[^>]*>(.*?)</code></pre>", await answer.text(), re.S)
    return [text for text in map(unescape, found) if "curl " in text]


def shell_of(client: ApiClient, client_id: str, client_secret: str) -> Shell:
    return Shell(CLIENT_ID=client_id, CLIENT_SECRET=client_secret, ACCOUNT_ID=client.account_id)


async def test_the_quick_starts_commands_pay_a_charge_and_the_guides_commands_continue_with_it(system: System) -> None:
    async with new_merchant(system) as merchant:
        shell = shell_of(merchant.sandbox, merchant.record.test.client_id, merchant.record.test.client_secret)
        token, create, pay = await blocks_of(system, "")
        assert await shell.type(token) == ""
        charge = await shell.answer(create)
        assert (charge["status"], charge["amount"], charge["test"]) == ("pending", "149.90", True)
        assert (await shell.answer(pay))["status"] == "paid"

        again, key = await blocks_of(system, "/idempotency")
        assert (await shell.answer(again))["charge_id"] == charge["charge_id"]
        known = await shell.answer(key)
        assert (known["state"], known["resource_id"], known["replay_count"]) == ("completed", charge["charge_id"], 1)

        (refund,) = await blocks_of(system, "/refunds")
        assert (await shell.answer(refund))["refunded_total"] == "10.00"
        plain, with_terms = await blocks_of(system, "/dual-charges")
        for dual in (plain, with_terms):
            assert {each["leg"] for each in (await shell.answer(dual))["legs"]} == {"pix", "boleto"}
        ledger = next(each for each in await blocks_of(system, "/reconciliation") if "/ledger" in each)
        assert (await shell.answer(ledger))["next_cursor"] is None
        # The same reader can run the sandbox guide later: its commands do not collide with the earlier ones.
        first, *_ = await blocks_of(system, "/sandbox")
        assert '"status":"paid"' in await shell.type(first)


async def test_the_withdrawal_guides_commands_withdraw_the_stated_amount(system: System) -> None:
    async with new_merchant(system) as merchant:
        client = merchant.production
        charge = await client.created("300.00")
        assert system.quita("bank", "pay", "--charge-id", charge["charge_id"]).returncode == 0

        async def credited() -> bool:
            return await client.balance() == "300.00"

        await until_answer(credited)
        shell = shell_of(client, merchant.record.production.client_id, merchant.record.production.client_secret)
        token, *_ = await blocks_of(system, "")
        await shell.type(token)
        (withdraw,) = [each for each in await blocks_of(system, "/withdrawals") if "/v1/withdrawals" in each]
        assert (await shell.answer(withdraw))["amount"] == "250.00"
