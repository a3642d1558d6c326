"""The tools of the test section: advancing the test clock, and making a test charge expire, fail or be paid oddly."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest_asyncio

from commands.charges.sandbox import SANDBOX_FAILURE
from commands.merchants.merchants import MerchantCreated
from domain.brazilian import moment
from readmodels.charges.charge import ChargeDoc, read_doc
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.boleto_merchant import issue_boleto
from tests.support.dashboard import Books, Person, a_merchant, owner_in_browser, settings_with
from tests.support.merchant import new_merchant
from tests.support.pages import serving
from tests.support.system import System
from web.painel.labels import CHARGE_FAILURES
from workers.orders.pix import FAILURE_CODE

CLOCK = "/painel/teste/relogio"
SETTINGS = settings_with()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


class Environment(NamedTuple):
    pool: Pool
    merchant: MerchantCreated
    owner: Person
    books: Books

    async def current_doc(self, doc: ChargeDoc) -> ChargeDoc:
        row = await self.pool.fetchrow("SELECT doc FROM charge_view WHERE charge_id::text = $1", doc.charge_id)
        assert row is not None
        return read_doc(row["doc"])

    async def ahead_s(self) -> int:
        return int(
            await self.pool.fetchval(
                "SELECT coalesce(sum(ahead_s), 0)::bigint FROM sandbox_clock WHERE account_id = $1",
                self.merchant.account_id,
            )
        )


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, address: str) -> AsyncIterator[Environment]:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as owner:
        yield Environment(pool, merchant, owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)))


def page_of(doc: ChargeDoc) -> str:
    return f"/painel/teste/cobrancas/{doc.charge_id}"


async def test_advancing_the_test_clock_expires_test_charges_only_and_is_audited(env: Environment) -> None:
    due = await env.books.charge(test=True, lifetime=timedelta(days=2))
    real = await env.books.charge(test=False, lifetime=timedelta(days=2))
    assert "Adiantado não está" in (await env.owner.opened(CLOCK)).text
    seen = await env.owner.post(CLOCK, on=CLOCK, days="3", hours="12", minutes="")
    assert (seen.status, seen.where) == (303, f"{CLOCK}?feito=relogio")
    page = await env.owner.opened(seen.where)
    assert "Relógio adiantado." in page.text
    assert "Adiantado 3 dias, 12 horas" in page.text
    later = datetime.now(UTC) + timedelta(days=3, hours=12)
    assert moment(later) in page.text or moment(later - timedelta(minutes=1)) in page.text
    assert ((await env.current_doc(due)).status, (await env.current_doc(real)).status) == ("expired", "pending")
    audit = await env.pool.fetchrow(
        "SELECT action, facts::text AS facts FROM audit WHERE account_id = $1 ORDER BY at DESC LIMIT 1",
        env.merchant.account_id,
    )
    assert audit is not None
    assert (audit["action"], "302400" in audit["facts"]) == ("sandbox.clock_advanced", True)
    assert "Adiantou o relógio do teste" in (await env.owner.opened("/painel/auditoria")).text


async def test_a_form_sent_twice_advances_the_clock_once(env: Environment) -> None:
    form = await env.owner.opened(CLOCK)
    answers = [await env.owner.post(CLOCK, form=form, days="1") for _ in range(2)]
    assert [seen.status for seen in answers] == [303, 409]
    assert await env.ahead_s() == 86_400


async def test_an_invalid_advance_is_refused_beside_its_field_and_moves_no_clock(env: Environment) -> None:
    invalid: tuple[dict[str, Any], ...] = (
        {"days": "0"}, {"days": "-1"}, {"days": "367"}, {"days": "366", "hours": "1"}, {"hours": "x"}, {},
    )  # fmt: skip
    for fields in invalid:
        seen = await env.owner.post(CLOCK, on=CLOCK, **fields)
        assert seen.status == 400, fields
        assert 'role="alert"' in seen.html
    assert await env.ahead_s() == 0


async def test_a_test_charge_is_made_to_expire_and_to_fail(env: Environment) -> None:
    for action, status in (("expirar", "expired"), ("falhar", "failed")):
        charge = await env.books.charge(test=True)
        seen = await env.owner.post(f"{page_of(charge)}/{action}", on=page_of(charge))
        assert seen.status == 303
        assert (await env.current_doc(charge)).status == status
        again = await env.owner.post(f"{page_of(charge)}/{action}", on=page_of(charge))
        assert (again.status, "não está mais em aberto" in again.text) == (409, True)
        page = await env.owner.opened(page_of(charge))
        assert f"{action}</button" not in page.html
        assert ("Falha pedida no ambiente de teste" in page.text) == (status == "failed")
    # Every failure code has a text in the reader's language.
    assert set(CHARGE_FAILURES) == {SANDBOX_FAILURE[0], FAILURE_CODE}


async def test_a_test_charge_can_be_paid_any_amount_several_times_in_any_state(env: Environment) -> None:
    charge = await env.books.charge(30_00, test=True)
    tail = f"{page_of(charge)}/pagar-como"
    seen = await env.owner.post(tail, on=page_of(charge), amount="29,99", times="1")
    assert seen.status == 303
    assert (await env.current_doc(charge)).status == "pending"
    await env.owner.post(tail, on=page_of(charge), amount="", times="2")
    assert (await env.current_doc(charge)).status == "paid"
    await env.owner.post(tail, on=page_of(charge), amount="", times="")
    rows = await env.pool.fetch(
        "SELECT amount_cents, anomaly FROM payment WHERE charge_id::text = $1", charge.charge_id
    )
    assert sorted((row["amount_cents"], row["anomaly"] or "") for row in rows) == [
        (29_99, "amount_mismatch"), (30_00, ""), (30_00, "duplicate"), (30_00, "duplicate"),
    ]  # fmt: skip
    odd: tuple[dict[str, Any], ...] = ({"amount": "0"}, {"amount": "10.50"}, {"times": "11"}, {"times": "0"})
    for fields in odd:
        seen = await env.owner.post(tail, on=page_of(charge), **fields)
        ((name, typed),) = fields.items()
        assert (seen.status, f'id="w-{name}"' in seen.html, f'value="{typed}"' in seen.html) == (400, True, True)
    assert len(await env.pool.fetch("SELECT FROM payment WHERE charge_id::text = $1", charge.charge_id)) == 4


async def test_production_has_none_of_the_sandbox_tools(env: Environment) -> None:
    charge = await env.books.charge(test=False)
    page = await env.owner.opened(f"/painel/cobrancas/{charge.charge_id}")
    assert "Ferramentas de teste" not in page.text
    for path in (
        "/painel/relogio",
        *(f"/painel/cobrancas/{charge.charge_id}/{each}" for each in ("expirar", "falhar")),
    ):
        assert (await env.owner.post(path, form=page)).status in (404, 405)
    # A production charge is unknown in the test section.
    for each in ("expirar", "falhar", "pagar-como"):
        assert (await env.owner.post(f"/painel/teste/cobrancas/{charge.charge_id}/{each}", form=page)).status == 404
    assert (await env.current_doc(charge)).status == "pending"


async def test_the_simulated_banks_scenarios_are_listed_with_an_example_to_copy(env: Environment) -> None:
    page = await env.owner.opened(CLOCK)
    for scenario in ("unavailable", "slow", "lost_reply", "refuse"):
        assert f"<code>{scenario}</code>" in page.html
    assert 'data-copy="curl"' in page.html
    assert str(env.merchant.account_id) in page.html


async def test_boletos_are_failed_and_paid_at_the_simulated_bank(system: System) -> None:
    async with new_merchant(system) as merchant, owner_in_browser(system.app_url, merchant.record) as owner:
        client = merchant.sandbox
        failing, paying = [(await issue_boleto(client))["charge_id"] for _ in range(2)]
        steps: tuple[tuple[str, str, dict[str, Any], str], ...] = (
            (failing, "falhar", {}, "failed"),
            (paying, "pagar-como", {"amount": "150,00", "times": "1"}, "paid"),
            (failing, "pagar-como", {"amount": "", "times": "1"}, "failed"),
        )
        for charge_id, tail, fields, status in steps:
            base = f"/painel/teste/cobrancas/{charge_id}"
            seen = await owner.post(f"{base}/{tail}", on=base, **fields)
            assert seen.status == 303, seen.text[:300]
            assert (await client.charge(charge_id))["status"] == status
        (odd,) = await client.all("/v1/payments", charge_id=failing)
        assert odd["anomaly"] == "paid_after_cancel"
