"""A payment anomaly is listed on the first page until the money was returned or somebody resolved the anomaly."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest_asyncio

from commands.money.refund_end import Ending, end_refunds
from commands.money.reversals import BankReturn, book_reversals
from domain.instants import to_millisecond
from domain.mode import Mode, Owner
from readmodels.money.anomalies import AnomalyFilters, anomalies_everywhere
from runtime.postgres import session, transaction
from runtime.seal import Seal
from tests.support.dashboard import Books, Person, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving

SETTINGS = settings_with()


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)), address, merchant


async def pay_twice(books: Books, *, at: datetime | None = None, test: bool = False) -> str:
    """Pay a charge twice; return the path of the second payment's anomaly page."""
    doc = await books.charge(700, external_id="ped-1", at=at, test=test)
    await books.paid(doc, 700, 700, at=at)
    found: UUID = await books.pool.fetchval(
        "SELECT payment_id FROM payment WHERE charge_id = $1 AND anomaly IS NOT NULL", UUID(doc.charge_id)
    )
    return f"/painel/{'teste/' if test else ''}pagamentos/{found}/divergencia"


async def is_on_first_page(owner: Person) -> bool:
    text = (await owner.opened("/painel")).text
    assert ("nenhuma divergência a resolver" in text) != ("com divergência" in text)
    return "com divergência" in text


async def gives_way_to_another(owner: Person, books: Books, page: str) -> bool:
    """Whether the first page lists an anomaly that is still open, and no longer the one with this page."""
    other = await pay_twice(books)
    html = (await owner.opened("/painel")).html
    return f'href="{other}"' in html and f'href="{page}"' not in html


async def test_an_anomaly_of_any_age_stays_on_the_first_page_until_resolved_with_a_note(shop: Any) -> None:
    owner, books, address, merchant = shop
    assert not await is_on_first_page(owner)
    page = await pay_twice(books, at=datetime.now(UTC) - timedelta(days=60))
    assert await is_on_first_page(owner)
    shown = await owner.opened(page)
    assert "Pago em duplicidade" in shown.text
    for note in ("", "   ", "x" * 201, "pago \u202e"):
        refused = await owner.post(page, form=shown, note=note)
        assert (refused.status, "Escreva o que foi feito" in refused.text) == (400, True)
    assert await is_on_first_page(owner)
    resolved = await owner.post(page, on=page, note="crédito no pedido 1042")
    assert (resolved.status, resolved.where) == (303, f"{page}?feito=divergencia")
    after = (await owner.opened(page)).text
    assert "crédito no pedido 1042" in after
    assert owner.email in after
    assert not await is_on_first_page(owner)
    assert "Resolveu um pagamento com divergência" in (await owner.opened("/painel/auditoria")).text
    async with colleague_in_browser(books.pool, address, merchant, "support") as support:
        seen = await support.opened(page)
        assert "Marcar como resolvida" not in seen.text
        assert (await support.post(page, note="eu não")).status == 403
    assert await gives_way_to_another(owner, books, page)


async def test_pages_that_show_an_anomaly_link_to_its_resolution_until_it_is_resolved(shop: Any) -> None:
    owner, books, address, merchant = shop
    page = await pay_twice(books)
    charge = await books.pool.fetchval("SELECT charge_id FROM charge WHERE account_id = $1", books.account_id)
    places = ("/painel", "/painel/pagamentos", f"/painel/cobrancas/{charge}")
    link = re.compile(rf'<a [^>]*href="{page}">\s*[Rr]esolver<')
    for place in places:
        seen = await owner.opened(place)
        assert link.search(seen.html), place
        assert re.search(rf'<a class="chip chip-warn" href="{page}">Pago em duplicidade</a>', seen.html), place
    async with colleague_in_browser(books.pool, address, merchant, "support") as support:
        for place in places:
            assert not link.search((await support.opened(place)).html), place
    assert (await owner.post(page, on=page, note="crédito no pedido 1042")).status == 303
    for place in places:
        assert not link.search((await owner.opened(place)).html), place


async def test_an_anomaly_shows_how_much_of_its_charge_was_or_is_being_refunded(shop: Any) -> None:
    owner, books, *_ = shop
    page = await pay_twice(books)
    charge = await books.pool.fetchval("SELECT charge_id FROM charge WHERE account_id = $1", books.account_id)
    refund = f"/painel/cobrancas/{charge}/devolver?payment_id={page.split('/')[3]}"
    places = ("/painel", page, refund, f"/painel/cobrancas/{charge}")
    for place in places:
        assert "desta cobrança já" not in (await owner.opened(place)).text, place
    settled = await books.pool.fetchval(
        "SELECT payment_id FROM payment WHERE account_id = $1 AND anomaly IS NULL", books.account_id
    )
    form = f"/painel/cobrancas/{charge}/devolver"
    asked = await owner.post(form, on=form, payment_id=str(settled), sure="yes")
    assert asked.status == 303, asked.text
    # What was returned of the payment itself is not returned of another one.
    await books.pool.execute(
        "UPDATE payment SET refunded_cents = 100, refunding_cents = 50, reversed_cents = 25"
        " WHERE account_id = $1 AND anomaly IS NOT NULL",
        books.account_id,
    )
    for place in places:
        text = (await owner.opened(place)).text
        assert "R$\xa07,00 desta cobrança já estão voltando a quem pagou" in text, place
    refund_id = await books.pool.fetchval("SELECT refund_id FROM refund WHERE charge_id = $1", charge)
    async with transaction(books.pool) as conn:
        ending = Ending(charge_id=charge, refund_id=refund_id, return_id="D1")
        await end_refunds(conn, [ending], now=to_millisecond(datetime.now(UTC)))
    for place in places:
        text = (await owner.opened(place)).text
        assert "R$\xa07,00 desta cobrança já foram devolvidos" in text, place
    assert await is_on_first_page(owner)


async def test_resolving_an_anomaly_a_second_time_keeps_the_first_note(shop: Any) -> None:
    owner, books, *_ = shop
    page = await pay_twice(books)
    first, second = await owner.opened(page), await owner.opened(page)
    assert (await owner.post(page, form=first, note="primeira")).status == 303
    assert (await owner.post(page, form=second, note="segunda")).status == 303
    assert "primeira" in (await owner.opened(page)).text


async def test_an_anomaly_leaves_the_first_page_once_refunded_in_full(shop: Any) -> None:
    owner, books, *_ = shop
    page = await pay_twice(books)
    await books.pool.execute(
        "UPDATE payment SET refunding_cents = 699 WHERE account_id = $1 AND anomaly IS NOT NULL", books.account_id
    )
    assert await is_on_first_page(owner)
    await books.pool.execute(
        "UPDATE payment SET refunding_cents = 700 WHERE account_id = $1 AND anomaly IS NOT NULL", books.account_id
    )
    assert not await is_on_first_page(owner)
    assert (await owner.get(page)).status == 200
    assert await gives_way_to_another(owner, books, page)


async def test_an_anomaly_leaves_the_first_page_once_the_bank_reversed_it_in_full(shop: Any) -> None:
    owner, books, *_ = shop
    page = await pay_twice(books)
    payment = await books.pool.fetchrow(
        "SELECT payment_id, charge_id, source FROM payment WHERE account_id = $1 AND anomaly IS NOT NULL",
        books.account_id,
    )
    for number, cents in enumerate((699, 1)):
        assert await is_on_first_page(owner)
        given = BankReturn(
            position=0, charge_id=payment["charge_id"], boleto_number=None, end_to_end_id=payment["source"],
            refund_id=None, bank_id=f"MED{number}", return_id=None, amount_cents=cents,
        )  # fmt: skip
        async with transaction(books.pool) as conn:
            assert await book_reversals(conn, [given], bank="001", now=datetime.now(UTC)) == 1
    assert not await is_on_first_page(owner)
    assert (await owner.get(page)).status == 200
    async with session(books.pool) as conn:
        listed, _ = await anomalies_everywhere(
            conn, Owner(books.account_id, Mode.PRODUCTION), AnomalyFilters(), None, 100
        )
    assert payment["payment_id"] not in [each.id for each in listed]
    assert await gives_way_to_another(owner, books, page)


async def test_anomaly_pages_of_other_accounts_other_modes_and_ordinary_payments_answer_404(
    shop: Any, pool: Any
) -> None:
    owner, books, *_ = shop
    other = Books(pool, (await a_merchant(pool)).account_id, books.seal)
    theirs, tested = await pay_twice(other), await pay_twice(books, test=True)
    await books.paid(await books.charge(100))
    plain = await pool.fetchval(
        "SELECT payment_id FROM payment WHERE account_id = $1 AND anomaly IS NULL AND NOT test", books.account_id
    )
    for page in (theirs, tested.replace("/teste", ""), f"/painel/pagamentos/{plain}/divergencia"):
        assert (await owner.get(page)).status == 404
        assert (await owner.post(page, note="x")).status == 404
    assert not await is_on_first_page(owner)
    assert await pool.fetchval("SELECT count(*) FROM anomaly_resolved WHERE account_id = $1", books.account_id) == 0
