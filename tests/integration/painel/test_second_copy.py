"""A payer asks on the page of an expired boleto for a second copy; the merchant is told, and answers with a new charge
to which that page then leads (docs/decisions/0055-second-copies.md).
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
from tests.support.boleto_merchant import boleto_issued_before, issued, today
from tests.support.boletos import happen, issue
from tests.support.dashboard import Person, Seen, a_merchant, colleague_of, person_of, settings_with
from tests.support.mailed import letters_to, words_of
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
    async with new_merchant(system) as merchant, person_of(system.app_url, merchant.record) as owner:
        yield Environment(system, merchant, owner)


async def advance_past(client: ApiClient, charge: dict[str, Any], days: int = 1) -> None:
    day = date.fromisoformat(charge["effective_due_date"]) + timedelta(days=days)
    answer = await client.post("/v1/sandbox/clock", {"to": f"{day.isoformat()}T15:00:00Z"})
    assert answer.status == 200, answer.raw


async def page_of(client: ApiClient, charge: dict[str, Any]) -> str:
    async with client.http.get(charge["payment_url"]) as answer:
        assert answer.status == 200
        return await answer.text()


async def asked(client: ApiClient, charge: dict[str, Any], query: str = "") -> str:
    """The button is pressed; where that leads."""
    address = f"{charge['payment_url']}/segunda-via{query}"
    async with client.http.post(address, allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()
        return answer.headers["Location"]


def filled(seen: Seen) -> dict[str, str]:
    """What the form of a new boleto was opened with: as a browser would send it."""
    fields = dict(re.findall(r'<input id="i-[a-z_]+" name="([a-z_]+)" [^>]*value="([^"]*)"', seen.html))
    for name, options in re.findall(r'<select id="i-[a-z_]+" name="([a-z_]+)"[^>]*>(.*?)</select>', seen.html, re.S):
        fields[name] = next(iter(re.findall(r'value="([^"]*)" selected', options)), "")
    hidden = re.findall(r'<input type="hidden" name="(forma|de)" value="([^"]+)"', seen.html)
    ticked = re.findall(r'name="(kind)" type="radio" value="([^"]+)" required checked', seen.html)
    boxes = re.findall(r'name="(second_copy)" type="checkbox" value="(yes)" checked', seen.html)
    return fields | dict(hidden) | dict(ticked) | dict(boxes)


@pytest.mark.parametrize("tipo", ["boleto", "boleto_hibrido", "boleto_pix"])
async def test_the_page_of_an_expired_boleto_asks_and_then_leads_to_the_new_charge(env: Environment, tipo: str) -> None:
    client, owner = env.merchant.sandbox, env.owner
    charge = await issued(client, "150.00", tipo=tipo, external_id="fatura-77")
    assert OFFER not in await page_of(client, charge)
    assert await asked(client, charge) == f"/pagar/{charge['public_id']}"  # of one that can be paid nothing is asked
    await advance_past(client, charge)
    shown = await page_of(client, charge)
    assert (OFFER in shown, ASK_ANEW in shown) == (True, True)
    assert await asked(client, charge) == f"/pagar/{charge['public_id']}"
    shown = await page_of(client, charge)
    assert ASKED in shown
    assert (OFFER in shown, ASK_ANEW in shown) == (False, False), "once a day"
    # The merchant sees it on the charge, and the form is filled in but for the button.
    page = f"/painel/teste/cobrancas/{charge['charge_id']}"
    opened = await owner.opened(page)
    assert "O pagador pediu a 2ª via deste boleto" in opened.text
    form = await owner.opened(f"/painel/teste/cobrancas/nova?de={charge['charge_id']}")
    fields = filled(form)
    assert (fields["external_id"], fields["amount"], fields["second_copy"]) == ("fatura-77", "150,00", "yes")
    done = await owner.post("/painel/teste/cobrancas/nova", form=form, **fields)
    assert done.status == 303, done.text[:900]
    new_id = done.where.rpartition("/")[2].partition("?")[0]
    new = await client.charge(new_id)
    assert "leva o pagador a ela" in (await owner.opened(done.where)).text
    shown = await page_of(client, charge)
    assert ANSWERED in shown
    assert f'href="/pagar/{new["public_id"]}"' in shown
    assert OFFER not in shown
    assert f"/painel/teste/cobrancas/{new_id}" in (await owner.opened(page)).html
    assert (await client.charge(charge["charge_id"]))["status"] == "expired"


async def test_the_next_day_it_may_be_asked_again_in_the_payers_language(env: Environment) -> None:
    client = env.merchant.sandbox
    charge = await issued(client)
    await advance_past(client, charge)
    assert await asked(client, charge, "?lang=en") == f"/pagar/{charge['public_id']}?lang=en"
    await advance_past(client, charge, 2)
    async with client.http.get(f"{charge['payment_url']}?lang=en") as answer:
        shown = await answer.text()
    assert "Ask for a new copy again" in shown
    assert "form-action 'self'" in answer.headers["Content-Security-Policy"]


async def test_a_charge_for_somebody_else_is_no_answer(env: Environment) -> None:
    """Whoever has the old link would read what another payer owes."""
    client, owner = env.merchant.sandbox, env.owner
    charge = await issued(client)
    await advance_past(client, charge)
    await asked(client, charge)
    form = await owner.opened(f"/painel/teste/cobrancas/nova?de={charge['charge_id']}")
    fields = filled(form) | {"payer_document": "111.444.777-35"}
    done = await owner.post("/painel/teste/cobrancas/nova", form=form, **fields)
    assert done.status == 303, done.text[:900]
    assert done.where.endswith("criada")
    shown = await page_of(client, charge)
    assert ANSWERED not in shown
    assert ASKED in shown


async def test_a_request_can_be_put_away_and_leaves_a_trace(env: Environment) -> None:
    client, owner = env.merchant.sandbox, env.owner
    charge = await issued(client)
    await advance_past(client, charge)
    await asked(client, charge)
    page = f"/painel/teste/cobrancas/{charge['charge_id']}"
    done = await owner.post(f"{page}/segunda-via", on=page)
    assert done.status == 303
    shown = (await owner.opened(page)).text
    assert "O pagador pediu a 2ª via deste boleto" not in shown
    assert "O pagador pediu a 2ª via" in shown  # in what happened to it
    audit = (await owner.opened("/painel/auditoria")).text
    assert "Dispensou um pedido de 2ª via" in audit


async def test_in_production_it_needs_attention_on_the_first_page_until_it_is_paid_after_all(
    env: Environment, books: Books
) -> None:
    client, owner = env.merchant.production, env.owner
    due = today() - timedelta(days=8)
    charge_id = await boleto_issued_before(env.system, books, client, test=False, due_on=due, external_id="velha-1")

    async def expired() -> dict[str, Any] | None:
        found = await client.charge(charge_id)
        return found if found["status"] == "expired" else None

    charge = await until_answer(expired)
    assert "de 2ª via" not in (await owner.opened("/painel")).text
    await asked(client, charge)
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


# By the command: what a page cannot show


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Pool) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with serving(pool, lambda: LATER, SETTINGS) as address, person_of(address, merchant) as owner:
        yield merchant, owner, address


async def lapsed(pool: Pool, account_id: UUID, **more: Any) -> ChargeDoc:
    async with transaction(pool) as conn:
        doc = await issue(conn, SEAL, account_id, test=False, due=DUE, now=NOW, **more)
        return await happen(conn, doc, "charge.expired", LATER, status="expired")


async def asked_again(pool: Pool, person: Person) -> list[Any]:
    """The letters about second copies that somebody got."""
    letters = await letters_to(pool, SETTINGS, person.email, now=LATER)
    return [each for each in letters if each["Subject"] == "Um pagador pediu a 2ª via de um boleto"]


async def ask(pool: Pool, doc: ChargeDoc, at: datetime = LATER) -> bool:
    async with transaction(pool) as conn:
        return await ask_second_copy(conn, doc.public_id, today=at.astimezone(SAO_PAULO).date(), account_now=at, now=at)


async def test_it_is_asked_once_a_day_and_a_few_times_in_all(pool: Pool, shop: Any) -> None:
    doc = await lapsed(pool, shop[0].account_id)
    asked = [await ask(pool, doc, LATER + timedelta(hours=6 * each)) for each in range(4 * (TIMES_MAX + 3))]
    days = {(LATER + timedelta(hours=6 * each)).astimezone(SAO_PAULO).date() for each, new in enumerate(asked) if new}
    assert asked.count(True) == len(days) == TIMES_MAX
    row = await pool.fetchrow("SELECT times FROM second_copy_request WHERE charge_id = $1", UUID(doc.charge_id))
    assert row is not None
    assert row["times"] == TIMES_MAX


def test_what_the_page_offers_is_what_the_command_takes() -> None:
    day = date(2026, 11, 25)
    assert may_be_asked(None, 0, today=day)
    assert not may_be_asked(day, 1, today=day)
    assert may_be_asked(day, 1, today=day + timedelta(days=1))
    assert not may_be_asked(day, TIMES_MAX, today=day + timedelta(days=9))


async def test_who_makes_charges_is_mailed_and_no_more_than_a_letter_each_for_some_in_a_day(
    pool: Pool, shop: Any
) -> None:
    merchant, owner, address = shop
    async with (
        colleague_of(pool, address, merchant, "support") as support,
        colleague_of(pool, address, merchant, "developer") as developer,
    ):
        docs = [await lapsed(pool, merchant.account_id, external_id=f"f-{each}") for each in range(LETTERS_MAX + 3)]
        assert all([await ask(pool, doc) for doc in docs])
        async with transaction(pool) as conn:
            await write_notices(conn, now=LATER, seal=SEAL)
        letters = await asked_again(pool, owner)
        assert len(letters) == LETTERS_MAX
        words = "".join(words_of(each) for each in letters)
        for doc in docs[:LETTERS_MAX]:
            assert f"Sua referência: {doc.external_id}\r\n" in words
            assert f"/painel/cobrancas/{doc.charge_id}" in words
        # Nothing of the payer, whom the link to the dashboard shows to whoever may see him.
        assert "529" not in re.sub(r"[0-9a-f-]{36}", "", words)  # ids may have these digits
        assert len(await asked_again(pool, support)) == LETTERS_MAX
        assert await asked_again(pool, developer) == []
    # The page of webhooks tells of webhooks alone.
    assert "2ª via" not in (await owner.opened("/painel/webhooks")).text


async def test_what_is_not_an_expired_boleto_of_an_open_merchant_is_not_asked_for(pool: Pool, shop: Any) -> None:
    account_id = shop[0].account_id
    async with transaction(pool) as conn:
        pending = await issue(conn, SEAL, account_id, test=False, due=DUE, now=NOW)
        cancelled = await issue(conn, SEAL, account_id, test=False, due=DUE, now=NOW)
        cancelled = await happen(conn, cancelled, "charge.cancelled", NOW, status="cancelled")
    assert not await ask(pool, pending, NOW)
    assert await ask(pool, pending, LATER), "its time has passed, and the sweeper is on its way"
    assert not await ask(pool, cancelled)
    assert not await ask(pool, replace(pending, public_id="A" * 22))
    blocked = await lapsed(pool, account_id)
    await pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", account_id)
    try:
        assert not await ask(pool, blocked)
        async with pool.acquire() as conn:
            page = await payer_page(conn, blocked.public_id, now=LATER)
        assert page is not None
        assert page.second_copy is None
    finally:
        await pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", account_id)


async def test_an_open_page_changes_when_it_is_asked_and_answered(pool: Pool, shop: Any) -> None:
    doc, new = [await lapsed(pool, shop[0].account_id) for _ in range(2)]

    async def version() -> int:
        async with pool.acquire() as conn:
            state = (await page_states(conn, [doc.public_id], now=LATER))[doc.public_id]
            page = await payer_page(conn, doc.public_id, now=LATER)
        assert page is not None
        assert page.version == state.version
        return state.version

    seen = [await version()]
    await ask(pool, doc)
    seen.append(await version())
    await pool.execute(
        "UPDATE second_copy_request SET answered_by = $2, closed_at = now() WHERE charge_id = $1",
        UUID(doc.charge_id), UUID(new.charge_id),
    )  # fmt: skip
    seen.append(await version())
    assert len(set(seen)) == 3
