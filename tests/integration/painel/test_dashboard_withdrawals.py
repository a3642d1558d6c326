"""Withdrawals in the dashboard: one per form, cancellable while pending, and visible to owner and finance only."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import msgspec
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from commands.money.withdraw import set_daily, start_sending
from domain.brazilian import brl
from domain.instants import to_millisecond
from runtime.postgres import Pool, transaction
from tests.support.dashboard import Person, Seen, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving
from tests.support.wallet import balance_of, credit_wallet

PATH = "/painel/saques"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), settings_with()) as found:
        yield found


class Environment(NamedTuple):
    pool: Pool
    merchant: MerchantCreated
    owner: Person

    async def request(self, amount: str, *, form: Seen | None = None, sure: str = "yes", **more: str) -> Seen:
        return await self.owner.post(PATH, form=form, on=PATH, amount=amount, sure=sure, **more)

    async def withdrawal_ids(self) -> list[UUID]:
        rows = await self.pool.fetch(
            "SELECT withdrawal_id FROM withdrawal WHERE account_id = $1 ORDER BY created_at", self.merchant.account_id
        )
        return [row["withdrawal_id"] for row in rows]

    async def daily_keep_cents(self) -> int | None:
        found: int | None = await self.pool.fetchval(
            "SELECT keep_cents FROM auto_withdrawal WHERE account_id = $1", self.merchant.account_id
        )
        return found

    async def newest_audit_entry(self) -> tuple[str, dict[str, str]]:
        """The action and the facts of the newest audit entry."""
        row = await self.pool.fetchrow(
            "SELECT action, facts FROM audit WHERE account_id = $1 ORDER BY at DESC, audit_id DESC LIMIT 1",
            self.merchant.account_id,
        )
        assert row is not None
        return row["action"], msgspec.json.decode(row["facts"])

    async def balance(self) -> int:
        return await balance_of(self.pool, self.merchant.account_id)


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, address: str) -> AsyncIterator[Environment]:
    merchant = await a_merchant(pool)
    await credit_wallet(pool, merchant.account_id, 1_234_56)
    async with owner_in_browser(address, merchant) as owner:
        yield Environment(pool, merchant, owner)


async def test_a_withdrawal_is_requested_debited_listed_and_audited(env: Environment) -> None:
    page = await env.owner.opened(PATH)
    assert f"Saldo disponível {brl(1_234_56)}" in page.text
    assert "Nenhum saque ainda" in page.text
    key = str(env.merchant.account_id)
    assert f"{key[:4]}***{key[-4:]}" in page.text
    assert key not in page.html
    seen = await env.request("1.000,50", form=page, description="Aluguel")
    assert (seen.status, seen.where) == (303, f"{PATH}?feito=saque")
    page = await env.owner.opened(seen.where)
    assert "Saque pedido." in page.text
    assert f"Saldo disponível {brl(234_06)}" in page.text
    assert "Aluguel" in page.text
    assert brl(1_000_50) in page.text
    audit = await env.pool.fetchrow(
        "SELECT action, subject, facts FROM audit WHERE account_id = $1 ORDER BY at DESC LIMIT 1",
        env.merchant.account_id,
    )
    assert audit is not None
    assert (audit["action"], audit["subject"]) == ("withdrawal.asked", str((await env.withdrawal_ids())[0]))
    assert "Pediu um saque" in (await env.owner.opened("/painel/auditoria")).text


async def test_a_withdrawal_names_the_owner_of_the_key_and_requires_the_confirmation_box(env: Environment) -> None:
    page = await env.owner.opened(PATH)
    assert f"de {env.merchant.name}" in page.text
    unsure = await env.request("10,00", form=page, sure="")
    assert (unsure.status, "Confirme que quer sacar." in unsure.text) == (400, True)
    assert await env.withdrawal_ids() == []


async def test_the_whole_balance_can_be_withdrawn_without_an_amount(env: Environment) -> None:
    assert (await env.request("", all="yes")).status == 303
    assert await env.balance() == 0
    action, facts = await env.newest_audit_entry()
    key = str(env.merchant.account_id)
    assert (action, facts) == ("withdrawal.asked", {"amount": "1234.56", "pix_key": f"{key[:4]}***{key[-4:]}"})


async def test_an_amount_together_with_the_box_for_the_whole_balance_is_refused(env: Environment) -> None:
    seen = await env.request("10,00", all="yes")
    assert (seen.status, await env.balance()) == (400, 1_234_56), seen.where
    assert "Deixe em branco para sacar tudo, ou desmarque a caixa abaixo." in seen.text
    assert 'value="10,00"' in seen.html
    assert await env.withdrawal_ids() == []


async def test_a_form_sent_twice_withdraws_once(env: Environment) -> None:
    page = await env.owner.opened(PATH)
    assert (await env.request("10,00", form=page)).status == 303
    assert (await env.request("10,00", form=page)).status == 409
    assert await env.balance() == 1_224_56


async def test_an_invalid_amount_is_refused_and_creates_no_withdrawal(env: Environment) -> None:
    for amount, said, status in (
        ("", "Preencha este campo", 400),
        ("abc", "Informe um valor", 400),
        ("0,99", "O menor saque é de R$ 1,00", 422),
        ("1.234,57", "O saldo da conta não cobre este valor", 422),
    ):
        seen = await env.request(amount)
        assert (seen.status, said in seen.text) == (status, True), (amount, seen.text)
    assert await env.withdrawal_ids() == []
    assert await env.balance() == 1_234_56


async def test_a_pending_withdrawal_can_be_cancelled_and_one_at_the_bank_cannot(env: Environment) -> None:
    await env.request("10,00")
    await env.request("20,00")
    first, second = await env.withdrawal_ids()
    page = await env.owner.opened(PATH)
    assert page.html.count("/cancelar") == 2
    seen = await env.owner.post(f"{PATH}/{first}/cancelar", form=page)
    assert (seen.status, seen.where) == (303, f"{PATH}?feito=saque-cancelado")
    assert await env.balance() == 1_214_56
    async with transaction(env.pool) as conn:
        await start_sending(conn, second, env.merchant.account_id, now=to_millisecond(datetime.now(UTC)))
    seen = await env.owner.post(f"{PATH}/{second}/cancelar", on=PATH)
    assert (seen.status, "não pode mais ser cancelado" in seen.text) == (409, True)
    page = await env.owner.opened(PATH)
    assert ("Cancelado" in page.text, "No banco" in page.text, "/cancelar" in page.html) == (True, True, False)


async def test_a_withdrawal_of_another_account_can_be_neither_cancelled_nor_seen(
    env: Environment, address: str
) -> None:
    await env.request("10,00")
    (withdrawal_id,) = await env.withdrawal_ids()
    other = await a_merchant(env.pool)
    async with owner_in_browser(address, other) as stranger:
        unknown = await stranger.post(f"{PATH}/{uuid4()}/cancelar", on=PATH)
        theirs = await stranger.post(f"{PATH}/{withdrawal_id}/cancelar", on=PATH)
        assert (theirs.status, theirs.html) == (404, unknown.html)
        assert "R$\xa010,00" not in (await stranger.opened(PATH)).text
    assert await env.balance() == 1_224_56


async def test_only_owner_and_finance_see_and_request_withdrawals(env: Environment, address: str) -> None:
    async with colleague_in_browser(env.pool, address, env.merchant, "finance") as finance:
        assert 'href="/painel/saques"' in (await finance.opened("/painel")).html
        assert (await finance.post(PATH, on=PATH, amount="10,00", sure="yes")).status == 303
    for role in ("developer", "support"):
        async with colleague_in_browser(env.pool, address, env.merchant, role) as person:
            assert (await person.get(PATH)).status == 403
            assert (await person.post(PATH, amount="10,00")).status == 403
            assert 'href="/painel/saques"' not in (await person.opened("/painel")).html
    assert (await env.owner.get("/painel/teste/saques")).status == 404
    assert await env.balance() == 1_224_56


async def test_the_page_and_its_csv_file_follow_the_filters(env: Environment) -> None:
    for amount in ("10,00", "20,00", "30,00"):
        await env.request(amount)
    first, *_ = await env.withdrawal_ids()
    await env.owner.post(f"{PATH}/{first}/cancelar", on=PATH)
    cells = r'<td class="number">([^<]+)</td>'
    assert re.findall(cells, (await env.owner.opened(f"{PATH}?status=pending")).html) == [brl(30_00), brl(20_00)]
    assert re.findall(cells, (await env.owner.opened(f"{PATH}?status=cancelled")).html) == [brl(10_00)]
    file = await env.owner.opened(f"{PATH}.csv?status=cancelled")
    lines = file.html.strip().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(f"{first};;Cancelado;10,00;")
    assert (await env.owner.get(f"{PATH}?created_from=x")).status == 400


async def test_an_account_that_cannot_withdraw_is_told_why(env: Environment, address: str) -> None:
    page = await env.owner.opened(PATH)
    await env.pool.execute("UPDATE account SET kyc = 'pending' WHERE account_id = $1", env.merchant.account_id)
    assert "ainda não foi aprovado" in (await env.owner.opened(PATH)).text
    assert (await env.request("10,00", form=page)).status == 403
    await env.pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", env.merchant.account_id)
    assert "está bloqueado: nenhum saque sai" in (await env.owner.opened(PATH)).text
    await env.pool.execute(
        "UPDATE account SET kyc = 'approved', pix_key = '' WHERE account_id = $1", env.merchant.account_id
    )
    assert "não tem uma chave Pix" in (await env.owner.opened(PATH)).text
    assert await env.withdrawal_ids() == []


async def test_an_active_daily_withdrawal_is_announced_on_the_page(env: Environment) -> None:
    assert "Saque automático ligado" not in (await env.owner.opened(PATH)).text
    async with transaction(env.pool) as conn:
        await set_daily(conn, env.merchant.account_id, keep_cents=100_00)
    text = (await env.owner.opened(PATH)).text
    assert f"Saque automático ligado: todo dia, a partir das 19 h, sai o que passar de {brl(100_00)}." in text


async def test_the_owner_switches_the_daily_withdrawal_on_and_off_and_both_are_audited(env: Environment) -> None:
    for typed, daily_keep_cents, written in (
        ("1.000,00", 1_000_00, "1000.00"),
        ("0", 0, "0.00"),
        (brl(50_00), 50_00, "50.00"),
    ):
        seen = await env.owner.post(f"{PATH}/automatico", on=PATH, keep=typed)
        assert (seen.status, seen.where) == (303, f"{PATH}?feito=saque-diario")
        assert await env.daily_keep_cents() == daily_keep_cents
        assert await env.newest_audit_entry() == ("withdrawal.daily_set", {"keep": written})
    refused = await env.owner.post(f"{PATH}/automatico", on=PATH, keep="-1")
    assert "de zero até" in refused.text
    page = await env.owner.opened(seen.where)
    assert "Saque automático ligado." in page.text
    assert f'name="keep" type="text" value="{brl(50_00)}"' in page.html
    seen = await env.owner.post(f"{PATH}/automatico/desligar", form=page)
    assert (seen.status, seen.where) == (303, f"{PATH}?feito=saque-diario-desligado")
    assert await env.daily_keep_cents() is None
    assert await env.newest_audit_entry() == ("withdrawal.daily_ended", {})
    history = (await env.owner.opened("/painel/auditoria")).text
    assert "Ligou ou alterou o saque automático fica no saldo (R$): 50,00" in history
    assert "Desligou o saque automático" in history


async def test_an_invalid_amount_to_keep_does_not_switch_the_daily_withdrawal_on(env: Environment) -> None:
    for typed in ("", "-1", "10.50", "tudo", "0,000", "0" * 11):
        seen = await env.owner.post(f"{PATH}/automatico", on=PATH, keep=typed)
        assert (seen.status, await env.daily_keep_cents()) == (400, None), typed
        assert 'id="w-keep"' in seen.html
        assert 'id="w-amount"' not in seen.html


async def test_only_the_owner_can_switch_the_daily_withdrawal(env: Environment, address: str) -> None:
    async with transaction(env.pool) as conn:
        await set_daily(conn, env.merchant.account_id, keep_cents=100_00)
    async with colleague_in_browser(env.pool, address, env.merchant, "finance") as finance:
        page = await finance.opened(PATH)
        assert ("Saque automático ligado" in page.text, "/automatico" in page.html) == (True, False)
        for path in (f"{PATH}/automatico", f"{PATH}/automatico/desligar"):
            assert (await finance.post(path, form=page, keep="0")).status == 403
    assert await env.daily_keep_cents() == 100_00


async def test_statement_entries_of_a_withdrawal_link_to_the_withdrawals(env: Environment) -> None:
    await env.request("10,00")
    (withdrawal_id,) = await env.withdrawal_ids()
    page = await env.owner.opened("/painel/extrato?type=withdrawal")
    assert f'<a href="{PATH}">…{str(withdrawal_id)[-8:]}</a>' in page.html


async def test_an_owner_requests_another_payout_key_and_any_owner_can_cancel_the_change(
    env: Environment, address: str
) -> None:
    key: Any = {"pix_key": "+55 (11) 98765-4321", "document": "529.982.247-25"}
    wrong = await env.owner.post(f"{PATH}/chave", on=PATH, pix_key="loja", document="")
    assert (wrong.status, 'id="w-pix_key"' in wrong.html, 'id="w-document"' in wrong.html) == (400, True, True)
    seen = await env.owner.post(f"{PATH}/chave", form=wrong, **key)
    assert (seen.status, seen.where) == (303, f"{PATH}?feito=chave-pedida")
    assert await env.newest_audit_entry() == ("payout_key.asked", {"pix_key": "+551***4321"})
    page = await env.owner.opened(PATH)
    assert "Passa a valer em" in page.text
    assert "+551***4321" in page.text
    assert "+5511987654321" not in page.html
    assert f'{PATH}/chave"' not in page.html
    found = re.search(r'name="change_id" value="([^"]+)"', page.html)
    assert found
    async with colleague_in_browser(env.pool, address, env.merchant, "finance") as finance:
        assert "change_id" not in (await finance.opened(PATH)).html
        for path in ("chave", "chave/cancelar"):
            assert (await finance.post(f"{PATH}/{path}", on=PATH, change_id=found[1], **key)).status == 403
    async with colleague_in_browser(env.pool, address, env.merchant, "owner") as partner:
        done = await partner.post(f"{PATH}/chave/cancelar", on=PATH, change_id=found[1])
        assert (done.status, done.where) == (303, f"{PATH}?feito=chave-cancelada")
    again = await env.owner.post(f"{PATH}/chave/cancelar", form=page, change_id=found[1])
    assert again.status == 400
    # A change that this account does not have is refused, and so is a form that names none.
    assert (await env.owner.post(f"{PATH}/chave/cancelar", on=PATH, change_id=str(uuid4()))).status == 400
    assert (await env.owner.post(f"{PATH}/chave/cancelar", on=PATH)).status == 400
