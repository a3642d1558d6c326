"""Several charges cancelled at once: the user confirms count and sum, and the page reports each charge's result."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest_asyncio

from runtime.seal import Seal
from tests.support.dashboard import Books, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving

SETTINGS = settings_with()
LIST, CANCEL = "/painel/cobrancas", "/painel/cobrancas/cancelar"
NBSP = "\u00a0"


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)), address, merchant


async def statuses(books: Books) -> list[str]:
    rows = await books.pool.fetch(
        "SELECT status FROM charge WHERE account_id = $1 ORDER BY external_id", books.account_id
    )
    return [row["status"] for row in rows]


async def test_a_bulk_cancel_confirms_count_and_sum_and_reports_each_charge(shop: Any) -> None:
    owner, books, *_ = shop
    first, second, kept = [await books.charge(cents, external_id=f"ped-{cents}") for cents in (1000, 2050, 500)]
    paid = await books.charge(700, external_id="ped-paga")
    await books.paid(paid)
    listed = await owner.opened(LIST)
    assert listed.html.count('name="charge"') == 3, "only pending charges (em aberto) have a checkbox"
    chosen = [first.charge_id, second.charge_id, paid.charge_id]
    confirm = await owner.post(CANCEL, form=listed, charge=chosen)
    assert confirm.status == 200
    assert f"2 cobranças, R${NBSP}30,50" in confirm.text
    assert "1 já não está em aberto" in confirm.text
    assert await statuses(books) == ["pending", "pending", "pending", "paid"]
    unsure = await owner.post(CANCEL, form=confirm, charge=chosen, confirmed="yes", reason="paid_externally")
    assert (unsure.status, "Confirme que quer cancelar" in unsure.text) == (400, True)
    assert '<option value="paid_externally" selected>' in unsure.html
    done = await owner.post(CANCEL, form=confirm, charge=chosen, confirmed="yes", sure="yes", reason="paid_externally")
    assert "2 de 3 canceladas" in done.text
    assert "ped-paga Não cancelada A cobrança não está mais em aberto. Ela foi paga" in done.text
    assert await statuses(books) == ["cancelled", "cancelled", "pending", "paid"]
    life = await owner.opened(f"/painel/cobrancas/{first.charge_id}")
    assert f"por {owner.email}, no painel" in life.text
    assert "paga por outro meio" in life.text
    assert (await owner.opened("/painel/auditoria")).text.count("Cancelou uma cobrança") == 2
    assert kept.status == "pending"


async def test_a_form_sent_three_times_cancels_each_charge_once_and_answers_alike(shop: Any) -> None:
    owner, books, *_ = shop
    docs = [await books.charge() for _ in range(4)]
    form = await owner.opened(LIST)
    chosen = [doc.charge_id for doc in docs]
    sent = await asyncio.gather(*(owner.post(CANCEL, form=form, charge=chosen, sure="yes") for _ in range(3)))
    assert [each.status for each in sent] == [200] * 3
    assert all("4 de 4 canceladas" in each.text for each in sent), [each.text[:400] for each in sent]
    events = await books.pool.fetch(
        "SELECT charge_id, payload #>> '{charge,cancel_reason}' AS reason FROM journal"
        " WHERE account_id = $1 AND kind = 'charge.cancelled'",
        books.account_id,
    )
    assert len({row["charge_id"] for row in events}) == 4
    assert [row["reason"] for row in events] == ["cancelled"] * 4


async def test_a_bulk_cancel_takes_only_pending_charges_of_the_account_and_mode_up_to_one_page(shop: Any) -> None:
    owner, books, address, merchant = shop
    other = Books(books.pool, (await a_merchant(books.pool)).account_id, books.seal)
    theirs, trial = await other.charge(), await books.charge(test=True)
    lapsed = await books.charge(at=datetime.now(UTC) - timedelta(days=3))
    mine = await books.charge()
    none = await owner.post(CANCEL, on=LIST, charge=[theirs.charge_id, trial.charge_id, "x", str(uuid4())], sure="yes")
    assert (none.status, "Escolha na lista" in none.text) == (400, True)
    many = await owner.post(CANCEL, on=LIST, charge=[mine.charge_id, *(str(uuid4()) for _ in range(25))], sure="yes")
    assert (many.status, "Escolha na lista" in many.text) == (400, True)
    late = await owner.post(CANCEL, on=LIST, charge=[lapsed.charge_id])
    assert (late.status, "Nenhuma das escolhidas está em aberto" in late.text) == (400, True)
    async with colleague_in_browser(books.pool, address, merchant, "developer") as developer:
        assert "Cancelar selecionadas" not in (await developer.opened(LIST)).text
        assert (await developer.post(CANCEL, charge=mine.charge_id, sure="yes")).status == 403
    stands = "SELECT status FROM charge WHERE charge_id = $1"
    for doc in (theirs, trial, mine):
        assert await books.pool.fetchval(stands, UUID(doc.charge_id)) == "pending"
    trials = await owner.post("/painel/teste/cobrancas/cancelar", on=LIST, charge=trial.charge_id, sure="yes")
    assert "1 de 1 cancelada" in trials.text
