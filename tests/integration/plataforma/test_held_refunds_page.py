"""Held refunds at /plataforma: staff see account, amount, destination and reason, and release or refuse each once."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from uuid import UUID

import pytest
import pytest_asyncio

from commands.charges.pay import BoletoPaymentFacts, Confirmation, confirm_payments
from commands.money.refund import NewRefund, TransferDestination, begin_refunds
from domain.instants import to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from readmodels.dashboard.held_refunds import held_total
from readmodels.money.refund import RefundProjection
from runtime.ids import new_id
from runtime.postgres import Pool, session, transaction
from runtime.seal import Seal
from tests.support.boleto_merchant import issue_boleto_in_the_past, today
from tests.support.dashboard import Clock, Person, a_merchant, owner_in_browser, settings_with, staff_in_browser
from tests.support.pages import serving

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
PATH = "/plataforma/devolucoes"
TO = TransferDestination(pix_key="joao.davila@example.com", document="52998224725")


class Held(NamedTuple):
    merchant: Any
    charge_id: UUID
    refund_id: UUID

    @property
    def page(self) -> str:
        return f"{PATH}/{self.refund_id}"


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool, clock: Clock) -> AsyncIterator[str]:
    async with serving(pool, clock.now, SETTINGS) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def staff(pool: Pool, address: str) -> AsyncIterator[Person]:
    async with staff_in_browser(pool, address) as person:
        yield person


async def held_refund(pool: Pool, servers: Any, cents: int = 123_456) -> Held:
    """A refund of a boleto paid by its line, held because the daily bound for transfers is zero."""
    merchant = await a_merchant(pool)
    account_id, seal, now = UUID(str(merchant.account_id)), Seal(SETTINGS.secret_key), to_millisecond(datetime.now(UTC))
    system = SimpleNamespace(
        secret_key=SETTINGS.secret_key, database_url=servers.database_url, bank_url="http://bank.example.com"
    )
    client = SimpleNamespace(account_id=str(account_id))
    async with pool.acquire() as books:
        charge_id = UUID(
            await issue_boleto_in_the_past(
                cast(Any, system), cast(Any, books), cast(Any, client), test=False,
                due_on=today() + timedelta(days=5), amount_cents=cents,
            )
        )  # fmt: skip
    of = BoletoPaymentFacts(source=secrets.token_hex(10), method="boleto", nosso_numero="0" * 20, txid=None)
    paid = Confirmation(charge_id=charge_id, end_to_end_id=None, amount_cents=cents, paid_at=now, boleto=of)
    refund_id = new_id()
    asked = NewRefund(
        owner=Owner(account_id, Mode.PRODUCTION), key=secrets.token_hex(8), fingerprint=bytes(32), refund_id=refund_id,
        charge_id=charge_id, amount_cents=None, payment_id=None, reason=None, description=None, external_id=None,
        destination=TO.kept(refund_id, seal), scenario=None, actor="test", request_id="test",
    )  # fmt: skip
    async with transaction(pool) as conn:
        await confirm_payments(conn, [paid], now=now, seal=seal, fees=NO_FEES)
    async with transaction(pool) as conn:
        (begun,) = await begin_refunds(conn, [asked], now=now, transfers_cents_max=0)
    assert isinstance(begun, RefundProjection), begun
    return Held(merchant, charge_id, asked.refund_id)


async def count_orders(pool: Pool, held: Held) -> int:
    found: int = await pool.fetchval(
        "SELECT count(*) FROM bank_order WHERE charge_id = $1 AND kind = 'refund_transfer'", held.charge_id
    )
    # The order is deleted, so that no worker sends it to a bank.
    await pool.execute("DELETE FROM bank_order WHERE charge_id = $1", held.charge_id)
    return found


async def test_held_refunds_are_shown_with_the_key_and_the_document_masked(
    pool: Pool, servers: Any, staff: Person
) -> None:
    held = await held_refund(pool, servers)
    page = await staff.opened(PATH)
    assert held.page in page.html
    assert held.page not in (await staff.opened(f"{PATH}?situacao=refused")).html
    assert (await staff.get(f"{PATH}?situacao=x")).status == 400
    one = await staff.opened(held.page)
    for said in (
        "1.234,56",
        "Loja Açaí",
        "j***@example.com",
        "***.982.247-**",
        "Acima do limite do dia",
        "João d'Ávila",
    ):
        assert said in one.text.replace("\xa0", " "), said
    for seen in (page, one):
        assert "joao.davila" not in seen.html
        assert "52998224725" not in seen.html
    assert (await staff.get(f"{PATH}/{new_id()}")).status == 404
    # The merchant sees that the platform checks the refund, and not who does.
    async with owner_in_browser(staff.address, held.merchant) as owner:
        assert "a plataforma confere antes de enviar" in (await owner.opened("/painel/devolucoes")).text


async def test_a_release_asks_for_the_password_again_and_queues_one_bank_order(
    pool: Pool, servers: Any, staff: Person, clock: Clock
) -> None:
    held = await held_refund(pool, servers)
    clock.on(timedelta(minutes=6))
    asked = await staff.post(f"{held.page}/liberar", on=held.page)
    assert (asked.status, "Liberar uma devolução retida" in asked.text, held.merchant.name in asked.text) == (
        403, True, True,
    )  # fmt: skip
    assert await count_orders(pool, held) == 0
    again = await staff.post(f"{held.page}/liberar", on=held.page, step_up_password=staff.password)
    assert again.status == 303
    assert await count_orders(pool, held) == 1
    assert "Liberada" in (await staff.opened(held.page)).text
    late = await staff.post(f"{held.page}/recusar", on=held.page, reason="tarde")
    assert (late.status, "Alguém já decidiu" in late.text) == (400, True)
    log = await pool.fetch(
        "SELECT email, action, facts::text FROM audit WHERE subject = $1 AND action LIKE 'refund.%'",
        str(held.merchant.account_id),
    )
    assert [(row["email"], row["action"]) for row in log] == [(staff.email, "refund.released")]
    assert "j***" in log[0]["facts"]
    for payers in ("joao.davila", "example.com"):  # a private domain names its holder, and the log is never erased
        assert payers not in log[0]["facts"]


async def test_a_refusal_needs_a_reason_and_credits_the_money_back(pool: Pool, servers: Any, staff: Person) -> None:
    held = await held_refund(pool, servers)
    async with session(pool) as conn:
        waiting = await held_total(conn)
    silent = await staff.post(f"{held.page}/recusar", on=held.page, reason="")
    assert (silent.status, "Escreva o motivo" in silent.text) == (400, True)
    done = await staff.post(f"{held.page}/recusar", form=silent, reason="conta de laranja")
    assert done.status == 303
    assert "conta de laranja" in (await staff.opened(held.page)).text
    async with session(pool) as conn:
        left = await held_total(conn)
    assert (waiting.rows - left.rows, waiting.cents - left.cents) == (1, 123_456)
    balance = "SELECT balance_cents FROM account_clock WHERE account_id = $1 AND NOT test"
    assert await pool.fetchval(balance, held.merchant.account_id) == 123_456
    assert await count_orders(pool, held) == 0
    async with owner_in_browser(staff.address, held.merchant) as owner:
        page = (await owner.opened("/painel/devolucoes")).text
        assert "a plataforma não liberou" in page
        assert "laranja" not in page


async def test_of_concurrent_decisions_about_a_held_refund_exactly_one_takes_effect(
    pool: Pool, servers: Any, staff: Person, address: str
) -> None:
    held = await held_refund(pool, servers)
    async with staff_in_browser(pool, address) as colleague:
        answers = await asyncio.gather(
            staff.post(f"{held.page}/liberar", on=held.page),
            colleague.post(f"{held.page}/liberar", on=held.page),
            colleague.post(f"{held.page}/recusar", on=held.page, reason="não"),
        )
    assert sorted(answer.status for answer in answers) == [303, 400, 400]
    state = await pool.fetchval("SELECT state FROM held_refund WHERE refund_id = $1", held.refund_id)
    assert await count_orders(pool, held) == (state == "released")
    done = await pool.fetch("SELECT action FROM audit WHERE subject = $1", str(held.merchant.account_id))
    assert [row[0] for row in done] == [f"refund.{state}"]
