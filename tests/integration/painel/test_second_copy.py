"""A payer requests a second copy on the page of an expired boleto; the merchant is notified and answers with a new
charge, to which that page then links (docs/decisions/0055-second-copies.md).
"""

import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import pytest_asyncio
from msgspec.structs import replace

from commands.charges.second_copy import LETTERS_MAX, ask_second_copy
from commands.mail import write_notices
from domain.boleto.second_copy import TIMES_MAX, may_be_asked
from domain.instants import SAO_PAULO
from readmodels.charges.charge import ChargeDoc
from readmodels.charges.payer_page import page_states, payer_page
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.support.boleto_merchant import issue_boleto, issue_boleto_in_the_past, today
from tests.support.boletos import issue, record_boleto_change
from tests.support.dashboard import Person, Seen, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.mailed import letters_to, plain_text_of
from tests.support.merchant import ApiClient, ApiMerchant, Books, new_merchant, until_answer
from tests.support.pages import serving
from tests.support.system import System

SETTINGS = settings_with()
SEAL = Seal(SETTINGS.secret_key)
NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)
DUE = date(2026, 11, 25)
LATER = NOW + timedelta(days=10)
OFFER, ASKED, ANSWERED = "Pedir 2ª via", "2ª via pedida em", "emitiu uma nova cobrança"
ASK_ANEW = "Peça uma nova cobrança a"


class Environment(NamedTuple):
    system: System
    merchant: ApiMerchant
    owner: Person


@pytest_asyncio.fixture(loop_scope="session")
async def env(system: System) -> AsyncIterator[Environment]:
    async with new_merchant(system) as merchant, owner_in_browser(system.app_url, merchant.record) as owner:
        yield Environment(system, merchant, owner)


async def advance_past(client: ApiClient, charge: dict[str, Any], days: int = 1) -> None:
    day = date.fromisoformat(charge["effective_due_date"]) + timedelta(days=days)
    answer = await client.post("/v1/sandbox/clock", {"to": f"{day.isoformat()}T15:00:00Z"})
    assert answer.status == 200, answer.raw


async def payer_page_html(client: ApiClient, charge: dict[str, Any]) -> str:
    async with client.http.get(charge["payment_url"]) as answer:
        assert answer.status == 200
        return await answer.text()


async def request_copy(client: ApiClient, charge: dict[str, Any], query: str = "") -> str:
    """Press the button for a second copy; return the address it redirects to."""
    address = f"{charge['payment_url']}/segunda-via{query}"
    async with client.http.post(address, allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()
        return answer.headers["Location"]


def field_values(seen: Seen) -> dict[str, str]:
    """The values that the form of a new boleto was opened with, as a browser would send them."""
    fields = dict(re.findall(r'<input id="i-[a-z_]+" name="([a-z_]+)" [^>]*value="([^"]*)"', seen.html))
    for name, options in re.findall(r'<select id="i-[a-z_]+" name="([a-z_]+)"[^>]*>(.*?)</select>', seen.html, re.S):
        fields[name] = next(iter(re.findall(r'value="([^"]*)" selected', options)), "")
    hidden = re.findall(r'<input type="hidden" name="(forma|de)" value="([^"]+)"', seen.html)
    ticked = re.findall(r'name="(kind)" type="radio" value="([^"]+)" required checked', seen.html)
    boxes = re.findall(r'name="(second_copy)" type="checkbox" value="(yes)" checked', seen.html)
    return fields | dict(hidden) | dict(ticked) | dict(boxes)


@pytest.mark.parametrize("tipo", ["boleto", "boleto_hibrido", "boleto_pix"])
async def test_the_page_of_an_expired_boleto_takes_a_request_and_then_links_to_the_new_charge(
    env: Environment, tipo: str
) -> None:
    client, owner = env.merchant.sandbox, env.owner
    charge = await issue_boleto(client, "150.00", tipo=tipo, external_id="fatura-77")
    assert OFFER not in await payer_page_html(client, charge)
    assert (
        await request_copy(client, charge) == f"/pagar/{charge['public_id']}"
    )  # a boleto that can be paid takes no request
    await advance_past(client, charge)
    shown = await payer_page_html(client, charge)
    assert (OFFER in shown, ASK_ANEW in shown) == (True, True)
    assert await request_copy(client, charge) == f"/pagar/{charge['public_id']}"
    shown = await payer_page_html(client, charge)
    assert ASKED in shown
    assert (OFFER in shown, ASK_ANEW in shown) == (False, False), "one request a day"
    # The merchant sees the request on the charge, and the form of the new charge is prefilled.
    page = f"/painel/teste/cobrancas/{charge['charge_id']}"
    opened = await owner.opened(page)
    assert "O pagador pediu a 2ª via deste boleto" in opened.text
    form = await owner.opened(f"/painel/teste/cobrancas/nova?de={charge['charge_id']}")
    fields = field_values(form)
    assert (fields["external_id"], fields["amount"], fields["second_copy"]) == ("fatura-77", "150,00", "yes")
    done = await owner.post("/painel/teste/cobrancas/nova", form=form, **fields)
    assert done.status == 303, done.text[:900]
    new_id = done.where.rpartition("/")[2].partition("?")[0]
    new = await client.charge(new_id)
    assert "leva o pagador a ela" in (await owner.opened(done.where)).text
    shown = await payer_page_html(client, charge)
    assert ANSWERED in shown
    assert f'href="/pagar/{new["public_id"]}"' in shown
    assert OFFER not in shown
    assert f"/painel/teste/cobrancas/{new_id}" in (await owner.opened(page)).html
    assert (await client.charge(charge["charge_id"]))["status"] == "expired"


async def test_a_second_copy_may_be_requested_again_the_next_day_in_the_payers_language(env: Environment) -> None:
    client = env.merchant.sandbox
    charge = await issue_boleto(client)
    await advance_past(client, charge)
    assert await request_copy(client, charge, "?lang=en") == f"/pagar/{charge['public_id']}?lang=en"
    await advance_past(client, charge, 2)
    async with client.http.get(f"{charge['payment_url']}?lang=en") as answer:
        shown = await answer.text()
    assert "Ask for a new copy again" in shown
    assert "form-action 'self'" in answer.headers["Content-Security-Policy"]


async def test_a_new_charge_for_another_payer_does_not_answer_the_request(env: Environment) -> None:
    """Otherwise whoever has the old link would read what another payer owes."""
    client, owner = env.merchant.sandbox, env.owner
    charge = await issue_boleto(client)
    await advance_past(client, charge)
    await request_copy(client, charge)
    form = await owner.opened(f"/painel/teste/cobrancas/nova?de={charge['charge_id']}")
    fields = field_values(form) | {"payer_document": "111.444.777-35"}
    done = await owner.post("/painel/teste/cobrancas/nova", form=form, **fields)
    assert done.status == 303, done.text[:900]
    assert done.where.endswith("criada")
    shown = await payer_page_html(client, charge)
    assert ANSWERED not in shown
    assert ASKED in shown


async def test_a_request_can_be_dismissed_and_stays_in_the_timeline_and_the_audit_log(env: Environment) -> None:
    client, owner = env.merchant.sandbox, env.owner
    charge = await issue_boleto(client)
    await advance_past(client, charge)
    await request_copy(client, charge)
    page = f"/painel/teste/cobrancas/{charge['charge_id']}"
    done = await owner.post(f"{page}/segunda-via", on=page)
    assert done.status == 303
    shown = (await owner.opened(page)).text
    assert "O pagador pediu a 2ª via deste boleto" not in shown
    assert "O pagador pediu a 2ª via" in shown  # in the charge's timeline
    audit = (await owner.opened("/painel/auditoria")).text
    assert "Dispensou um pedido de 2ª via" in audit


async def test_a_request_in_production_is_mailed_and_on_the_first_page_until_the_boleto_is_paid(
    env: Environment, books: Books
) -> None:
    client, owner = env.merchant.production, env.owner
    due = today() - timedelta(days=8)
    charge_id = await issue_boleto_in_the_past(env.system, books, client, test=False, due_on=due, external_id="velha-1")

    async def expired() -> dict[str, Any] | None:
        found = await client.charge(charge_id)
        return found if found["status"] == "expired" else None

    charge = await until_answer(expired)
    assert "de 2ª via" not in (await owner.opened("/painel")).text
    await request_copy(client, charge)
    first = await owner.opened("/painel")
    assert "1 pedido de 2ª via" in first.text
    assert f'href="/painel/cobrancas/nova?de={charge_id}"' in first.html

    async def mailed() -> bool:
        return bool(
            await books.fetchval(
                "SELECT count(*) = 1 FROM mail m JOIN notice n USING (notice_id)"
                " WHERE n.account_id = $1 AND n.kind = 'second_copy_asked' AND m.state = 'sent'",
                UUID(client.account_id),
            )
        )

    await until_answer(mailed)
    await books.execute("UPDATE read_charge SET status = 'paid' WHERE charge_id = $1", UUID(charge_id))
    assert "de 2ª via" not in (await owner.opened("/painel")).text
    await books.execute("UPDATE read_charge SET status = 'expired' WHERE charge_id = $1", UUID(charge_id))


# Through the command: what a page cannot show


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Pool) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with serving(pool, lambda: LATER, SETTINGS) as address, owner_in_browser(address, merchant) as owner:
        yield merchant, owner, address


async def expired_boleto(pool: Pool, account_id: UUID, **more: Any) -> ChargeDoc:
    async with transaction(pool) as conn:
        doc = await issue(conn, SEAL, account_id, test=False, due=DUE, now=NOW, **more)
        return await record_boleto_change(conn, doc, "charge.expired", LATER, status="expired")


async def letters_about_copies(pool: Pool, person: Person) -> list[Any]:
    """The letters about second copies that this person got."""
    letters = await letters_to(pool, SETTINGS, person.email, now=LATER)
    return [each for each in letters if each["Subject"] == "Um pagador pediu a 2ª via de um boleto"]


async def request_by_command(pool: Pool, doc: ChargeDoc, at: datetime = LATER) -> bool:
    async with transaction(pool) as conn:
        return await ask_second_copy(conn, doc.public_id, today=at.astimezone(SAO_PAULO).date(), account_now=at, now=at)


async def test_a_second_copy_is_requested_once_a_day_and_a_bounded_number_of_times(pool: Pool, shop: Any) -> None:
    doc = await expired_boleto(pool, shop[0].account_id)
    asked = [
        await request_by_command(pool, doc, LATER + timedelta(hours=6 * each)) for each in range(4 * (TIMES_MAX + 3))
    ]
    days = {(LATER + timedelta(hours=6 * each)).astimezone(SAO_PAULO).date() for each, new in enumerate(asked) if new}
    assert asked.count(True) == len(days) == TIMES_MAX
    row = await pool.fetchrow("SELECT times FROM second_copy_request WHERE charge_id = $1", UUID(doc.charge_id))
    assert row is not None
    assert row["times"] == TIMES_MAX


def test_a_request_is_offered_once_a_day_up_to_the_limit() -> None:
    day = date(2026, 11, 25)
    assert may_be_asked(None, 0, today=day)
    assert not may_be_asked(day, 1, today=day)
    assert may_be_asked(day, 1, today=day + timedelta(days=1))
    assert not may_be_asked(day, TIMES_MAX, today=day + timedelta(days=9))


async def test_roles_that_create_charges_are_mailed_about_requests_up_to_a_daily_limit(
    pool: Pool, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant, owner, address = shop
    async with (
        colleague_in_browser(pool, address, merchant, "support") as support,
        colleague_in_browser(pool, address, merchant, "developer") as developer,
    ):
        docs = [
            await expired_boleto(pool, merchant.account_id, external_id=f"f-{each}") for each in range(LETTERS_MAX + 3)
        ]
        assert all([await request_by_command(pool, doc) for doc in docs])
        async with transaction(pool) as conn:
            while await write_notices(conn, now=LATER, seal=SEAL):  # a bounded number at a time, other tests' first
                pass
        letters = await letters_about_copies(pool, owner)
        assert len(letters) == LETTERS_MAX
        words = "".join(plain_text_of(each) for each in letters)
        for doc in docs[:LETTERS_MAX]:
            assert f"Sua referência: {doc.external_id}\r\n" in words
            assert f"/painel/cobrancas/{doc.charge_id}" in words
        # The letter names no payer: the dashboard, to which it links, shows the payer to those who may see it.
        assert "529" not in re.sub(r"[0-9a-f-]{36}", "", words)  # ids may have these digits
        assert len(await letters_about_copies(pool, support)) == LETTERS_MAX
        assert await letters_about_copies(pool, developer) == []
    # The page of webhooks shows only notices about webhooks.
    assert "2ª via" not in (await owner.opened("/painel/webhooks")).text
    assert f"{len(docs)} pedidos de 2ª via" in (await owner.opened("/painel")).text
    for module in ("readmodels.charges.second_copies.COUNT_MAX", "web.painel.overview.ASKED_AGAIN_MAX"):
        monkeypatch.setattr(module, 3)
    assert "mais de 3 pedidos de 2ª via" in (await owner.opened("/painel")).text  # a count that stopped says so


async def test_only_an_expired_boleto_of_a_merchant_that_is_not_blocked_takes_a_request(pool: Pool, shop: Any) -> None:
    account_id = shop[0].account_id
    async with transaction(pool) as conn:
        pending = await issue(conn, SEAL, account_id, test=False, due=DUE, now=NOW)
        cancelled = await issue(conn, SEAL, account_id, test=False, due=DUE, now=NOW)
        cancelled = await record_boleto_change(conn, cancelled, "charge.cancelled", NOW, status="cancelled")
    assert not await request_by_command(pool, pending, NOW)
    assert await request_by_command(pool, pending, LATER), (
        "it is past its due date, and the sweeper will mark it expired"
    )
    assert not await request_by_command(pool, cancelled)
    assert not await request_by_command(pool, replace(pending, public_id="A" * 22))
    blocked = await expired_boleto(pool, account_id)
    await pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", account_id)
    try:
        assert not await request_by_command(pool, blocked)
        async with pool.acquire() as conn:
            page = await payer_page(conn, blocked.public_id, now=LATER)
        assert page is not None
        assert page.second_copy is None
    finally:
        await pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", account_id)


async def test_a_request_and_its_answer_change_the_version_of_an_open_payer_page(pool: Pool, shop: Any) -> None:
    doc, new = [await expired_boleto(pool, shop[0].account_id) for _ in range(2)]

    async def version() -> int:
        async with pool.acquire() as conn:
            state = (await page_states(conn, [doc.public_id], now=LATER))[doc.public_id]
            page = await payer_page(conn, doc.public_id, now=LATER)
        assert page is not None
        assert page.version == state.version
        return state.version

    seen = [await version()]
    await request_by_command(pool, doc)
    seen.append(await version())
    await pool.execute(
        "UPDATE second_copy_request SET answered_by = $2, closed_at = now() WHERE charge_id = $1",
        UUID(doc.charge_id), UUID(new.charge_id),
    )  # fmt: skip
    seen.append(await version())
    assert len(set(seen)) == 3
