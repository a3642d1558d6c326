"""All owners are mailed about what moves or could move money: amount, masked destination, who did it and from where."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from commands.charges.pay import BoletoPaymentFacts, Confirmation, confirm_payments
from commands.people.tell import A_DAY_MAX, SecurityMail, mail_owners
from domain.brazilian import brl
from domain.instants import to_millisecond
from domain.merchants.fees import NO_FEES
from readmodels.documents.people_letter import NOTICE_KINDS, security_letter
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from runtime.seal import MAIL_NOTE, MAIL_TO, Seal
from tests.support.boleto_merchant import issue_boleto_in_the_past, today
from tests.support.dashboard import (
    Person,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
    staff_in_browser,
)
from tests.support.pages import serving
from tests.support.wallet import credit_wallet

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0", WEBHOOK_ALLOW_PRIVATE="1")
SEAL = Seal(SETTINGS.secret_key)


class Environment(NamedTuple):
    pool: Pool
    merchant: Any
    owner: Person
    partner: Person

    @property
    def account_id(self) -> UUID:
        return UUID(str(self.merchant.account_id))

    async def mails(self, kind: str) -> list[dict[str, str]]:
        """The facts of the mails of this kind, each of which went to both owners and to nobody else."""
        rows = await self.pool.fetch(
            "SELECT mail_id, to_sealed, note_sealed FROM mail WHERE account_id = $1 AND kind = 'security'"
            " ORDER BY created_at",
            self.account_id,
        )
        told: dict[bytes, tuple[SecurityMail, set[str]]] = {}
        for row in rows:
            note = SEAL.open(row["note_sealed"], MAIL_NOTE, row["mail_id"])
            _, people = told.setdefault(note, (msgspec.json.decode(note, type=SecurityMail), set()))
            people.add(SEAL.open(row["to_sealed"], MAIL_TO, row["mail_id"]).decode())
        found = []
        for each, people in told.values():
            if each.kind != kind:
                continue
            assert people == {self.owner.email, self.partner.email}
            assert each.kind in NOTICE_KINDS
            letter = security_letter(
                kind=each.kind, at=each.at, facts=each.facts, account="Loja", app_url="https://app", staff=False
            )
            said = dict(letter.facts)
            assert {"Conta", "Quando", "Quem fez"} <= set(said)
            # Every fact is in the letter.
            assert len(said) == len(each.facts) + 2, each.facts
            found.append(each.facts)
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, address: str) -> AsyncIterator[Environment]:
    merchant = await a_merchant(pool)
    await credit_wallet(pool, merchant.account_id, 100_000)
    async with (
        owner_in_browser(address, merchant) as owner,
        colleague_in_browser(pool, address, merchant, "owner") as partner,
        colleague_in_browser(pool, address, merchant, "finance"),
    ):
        yield Environment(pool, merchant, owner, partner)


def actor_facts(person: Person) -> dict[str, str]:
    return {"by": person.email, "from": "127.0.0.1"}


def masked_key(env: Environment) -> str:
    key = str(env.account_id)
    return f"{key[:4]}***{key[-4:]}"


async def test_owners_are_mailed_about_a_withdrawal_and_the_daily_withdrawal(env: Environment) -> None:
    path = "/painel/saques"
    assert (await env.owner.post(path, on=path, amount="10,00", sure="yes")).status == 303
    assert await env.mails("withdrawal.asked") == [
        {"amount": brl(1_000), "destination": masked_key(env), **actor_facts(env.owner)}
    ]
    # A refused withdrawal is not mailed.
    assert (await env.owner.post(path, on=path, amount="10.000,00", sure="yes")).status == 422
    assert len(await env.mails("withdrawal.asked")) == 1
    assert (await env.owner.post(f"{path}/automatico", on=path, keep="50,00")).status == 303
    assert await env.mails("withdrawal.daily_set") == [
        {"kept": brl(5_000), "destination": masked_key(env), **actor_facts(env.owner)}
    ]


async def test_owners_are_mailed_about_a_refund_to_a_key_but_not_about_a_devolucao(
    env: Environment, servers: Any
) -> None:
    now = to_millisecond(datetime.now(UTC))
    system = SimpleNamespace(
        secret_key=SETTINGS.secret_key, database_url=servers.database_url, bank_url="http://bank.example.com"
    )
    client = SimpleNamespace(account_id=str(env.account_id))
    charges = []
    for end_to_end_id in (None, f"E99999994{new_id().hex[:23]}"):
        async with env.pool.acquire() as books:
            charge_id = await issue_boleto_in_the_past(
                cast(Any, system), cast(Any, books), cast(Any, client), test=False, due_on=today() + timedelta(days=5)
            )
        of = BoletoPaymentFacts(
            source=new_id().hex, method="pix" if end_to_end_id else "boleto", nosso_numero="0" * 20, txid=None
        )
        paid = Confirmation(
            charge_id=UUID(charge_id), end_to_end_id=end_to_end_id, amount_cents=15_000, paid_at=now, boleto=of
        )
        async with transaction(env.pool) as conn:
            await confirm_payments(conn, [paid], now=now, seal=SEAL, fees=NO_FEES)
        charges.append(charge_id)
    key = {"pix_key": "joao.davila@example.com", "document": "529.982.247-25"}
    for charge_id, more in zip(charges, (key, {}), strict=True):
        path = f"/painel/cobrancas/{charge_id}/devolver"
        form = await env.owner.opened(path)
        found = re.search(r'name="payment_id" type="radio" value="([^"]+)"', form.html)
        assert found
        done = await env.owner.post(path, form=form, sure="yes", payment_id=found[1], **cast(Any, more))
        assert done.status == 303, done.text[:300]
        await env.pool.execute("DELETE FROM bank_order WHERE charge_id = $1", UUID(charge_id))
    assert await env.mails("refund.asked") == [
        {"amount": brl(15_000), "destination": "j***@example.com", **actor_facts(env.owner)}
    ]
    audit = "SELECT facts ->> 'pix_key' FROM audit WHERE action = 'refund.asked' AND subject = $1"
    assert await env.pool.fetchval(audit, charges[0]) == "j***", (
        "the audit log outlives an erased payer, so it holds even less of the key"
    )


async def test_owners_are_mailed_about_production_secrets_and_separately_about_money_scopes(env: Environment) -> None:
    for path, scopes in (
        ("/painel/tokens", ["charges:read"]),
        ("/painel/teste/tokens", ["refunds:create"]),
        ("/painel/tokens", ["charges:read", "refunds:create", "withdrawals:create"]),
    ):
        assert (await env.owner.post(path, name="ERP", scope=scopes)).status == 200
    rotated = f"/painel/tokens/{env.merchant.production.client_id}"
    assert (await env.partner.post(f"{rotated}/trocar", on=rotated, overlap="24h")).status == 200
    read = {"name": "ERP", "scopes": "Consultar cobranças e boletos", **actor_facts(env.owner)}
    assert await env.mails("credential.created") == [read]
    client_id = await env.pool.fetchval(
        "SELECT client_id FROM credential WHERE account_id = $1 AND scopes = '{charges:read}'", env.account_id
    )
    path = f"/painel/tokens/{client_id}"
    assert (await env.partner.post(f"{path}/trocar", on=path, overlap="1h")).status == 200
    assert await env.mails("credential.rotated") == [{**read, **actor_facts(env.partner)}]
    made, renewed = await env.mails("credential.money")
    assert made == {"name": "ERP", "scopes": "Devolver pagamentos, Pedir saques", **actor_facts(env.owner)}
    assert renewed["by"] == env.partner.email
    assert "Programar cobranças" in renewed["scopes"]


async def test_owners_are_mailed_about_changes_of_the_webhook_address_and_secret(env: Environment) -> None:
    path = "/painel/webhooks"
    assert (await env.owner.post(path, on=path, url="http://127.0.0.1:9/hook?key=secret")).status == 200
    assert (await env.partner.post(f"{path}/endereco", on=path, url="http://127.0.0.2:9/hook")).status == 303
    # A refused change is not mailed.
    assert (await env.partner.post(f"{path}/endereco", on=path, url="ftp://127.0.0.3/hook")).status == 400
    assert (await env.owner.post(f"{path}/segredo", on=path)).status == 200
    assert (await env.owner.post(f"{path}/remover", on=path, sure="yes")).status == 303
    # The mail names the host, not the path, which may hold a secret.
    assert await env.mails("webhook.registered") == [{"host": "http://127.0.0.1", **actor_facts(env.owner)}]
    assert await env.mails("webhook.moved") == [{"host": "http://127.0.0.2", **actor_facts(env.partner)}]
    assert await env.mails("webhook.rotated") == await env.mails("webhook.removed") == [actor_facts(env.owner)]


async def test_owners_are_mailed_about_a_removed_person_and_so_is_a_removed_owner(
    env: Environment, address: str
) -> None:
    path = "/painel/pessoas"
    async with colleague_in_browser(env.pool, address, env.merchant, "support") as gone:
        assert (await env.owner.post(f"{path}/remover", on=path, email=gone.email, sure="yes")).status == 303
        assert await env.mails("person.removed") == [{"person": gone.email, **actor_facts(env.owner)}]
    assert (await env.owner.post(f"{path}/remover", on=path, email=env.partner.email, sure="yes")).status == 303
    assert [each["person"] for each in await env.mails("person.removed")] == [gone.email, env.partner.email]


async def test_notices_of_actions_without_step_up_are_limited_per_day_and_the_last_says_so(env: Environment) -> None:
    """What moves money or admits people is always mailed, so that many small actions cannot hide a serious one."""
    at = to_millisecond(datetime.now(UTC))
    both = {env.owner.email, env.partner.email}

    async def send_notices(kind: str, times: int, *, at: datetime) -> None:
        for number in range(times):
            async with transaction(env.pool) as conn:
                await mail_owners(conn, env.account_id, kind, {"count": str(number)}, now=at, seal=SEAL)

    async def notices(kind: str) -> list[tuple[str, SecurityMail]]:
        rows = await env.pool.fetch(
            "SELECT mail_id, to_sealed, note_sealed FROM mail WHERE account_id = $1 AND kind = 'security'",
            env.account_id,
        )
        notes = [
            (
                SEAL.open(row["to_sealed"], MAIL_TO, row["mail_id"]).decode(),
                msgspec.json.decode(SEAL.open(row["note_sealed"], MAIL_NOTE, row["mail_id"]), type=SecurityMail),
            )
            for row in rows
        ]
        return [each for each in notes if each[1].kind == kind]

    await send_notices("webhook.rotated", A_DAY_MAX + 3, at=at)
    await send_notices("withdrawal.asked", A_DAY_MAX + 3, at=at)
    found = await notices("webhook.rotated")
    assert len(found) == 2 * A_DAY_MAX
    last = [each for each in found if each[1].last]
    assert {(email, told.facts["count"]) for email, told in last} == {(each, str(A_DAY_MAX - 1)) for each in both}
    letter = security_letter(
        kind="webhook.rotated", at=at, facts={}, account="Loja", app_url="https://app", staff=False, last=True
    )
    assert "É o último aviso deste tipo por hoje" in " ".join(letter.closing)
    money = await notices("withdrawal.asked")
    assert (len(money), any(each.last for _, each in money)) == (2 * (A_DAY_MAX + 3), False)
    # Each kind and each day has its own count.
    await send_notices("webhook.moved", 1, at=at)
    await send_notices("webhook.rotated", 1, at=at + timedelta(hours=24, seconds=1))
    assert (len(await notices("webhook.moved")), len(await notices("webhook.rotated"))) == (2, 2 * A_DAY_MAX + 2)


async def test_owners_are_mailed_about_a_payout_key_change_by_an_owner_or_by_the_platform(
    env: Environment, address: str
) -> None:
    path, key = "/painel/saques", {"pix_key": "financeiro@loja.example.com", "document": "11222333000181"}
    assert (await env.owner.post(f"{path}/chave", on=path, **cast(Any, key))).status == 303
    (asked,) = await env.mails("payout_key.asked")
    assert asked["destination"] == "f***@loja.example.com, documento 11.***.***/0001-**"
    assert asked["effective"]
    assert asked["by"] == env.owner.email
    page = await env.partner.opened(path)
    change = re.search(r'name="change_id" value="([^"]+)"', page.html)
    assert change
    assert (await env.partner.post(f"{path}/chave/cancelar", form=page, change_id=change[1])).status == 303
    (cancelled,) = await env.mails("payout_key.cancelled")
    assert cancelled["by"] == env.partner.email
    shop = f"/plataforma/lojas/{env.account_id}"
    async with staff_in_browser(env.pool, address) as ana, staff_in_browser(env.pool, address) as bia:
        assert (await ana.post(f"{shop}/chave", on=shop, **cast(Any, key))).status == 303
        (proposed,) = await env.mails("payout_key.proposed")
        # The mail names neither the member of staff nor their network address.
        assert (proposed["by"], "from" in proposed) == ("Plataforma", False)
        seen = await bia.opened(shop)
        change = re.search(r'name="change_id" value="([^"]+)"', seen.html)
        assert change
        assert (await bia.post(f"{shop}/chave/confirmar", form=seen, change_id=change[1])).status == 303
    assert [each["by"] for each in await env.mails("payout_key.asked")] == [env.owner.email, "Plataforma"]


@pytest.mark.parametrize("kind", sorted(NOTICE_KINDS))
def test_every_kind_of_notice_has_a_subject_and_a_lead(kind: str) -> None:
    letter = security_letter(
        kind=kind, at=datetime.now(UTC), facts={}, account="Loja", app_url="https://app", staff=False
    )
    assert letter.subject
    assert letter.lead.endswith(".")
