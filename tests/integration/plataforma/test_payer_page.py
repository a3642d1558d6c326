"""A payer's data at /plataforma: staff export and erase it after step-up, and the audit logs record both."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from runtime.ids import new_token
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.dashboard import Books, Clock, Person, a_merchant, settings_with, staff_in_browser
from tests.support.pages import serving

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
DOCUMENT = "52998224725"
PAYER = {"name": "Quitéria Bragança", "document": DOCUMENT, "email": "quiteria@braganca.example"}


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


async def merchant_with_payer_page(pool: Pool) -> tuple[Books, str]:
    """The books of a new merchant, and the path of its page about a payer."""
    merchant = await a_merchant(pool)
    return Books(
        pool, merchant.account_id, Seal(SETTINGS.secret_key)
    ), f"/plataforma/lojas/{merchant.account_id}/pagador"


async def audit_entries(pool: Pool, books: Books) -> list[tuple[str, str]]:
    rows = await pool.fetch(
        "SELECT action, facts::text FROM audit WHERE account_id = $1 AND action LIKE 'payer.%' ORDER BY number",
        books.account_id,
    )
    return [(row["action"], row["facts"]) for row in rows]


async def test_a_payers_data_are_exported_as_a_file_and_the_export_is_audited(pool: Pool, staff: Person) -> None:
    books, page = await merchant_with_payer_page(pool)
    charge = await books.charge(payer=PAYER, external_id="pedido-1")
    assert page in (await staff.opened(page.removesuffix("/pagador"))).html
    seen = await staff.post(f"{page}/arquivo", on=page, document="529.982.247-25", mode="production")
    assert (seen.status, seen.headers["Content-Type"].split(";")[0]) == (200, "application/json")
    assert seen.headers["Content-Disposition"].startswith("attachment;")
    assert seen.headers["Cache-Control"] == "no-store"
    exported = json.loads(seen.html)
    assert [each["charge_id"] for each in exported["charges"]] == [charge.charge_id]
    assert exported["charges"][0]["payer"]["name"] == PAYER["name"]
    ((action, facts),) = await audit_entries(pool, books)
    assert action == "payer.exported"
    assert DOCUMENT not in facts
    # The sandbox holds nothing about the same person.
    seen = await staff.post(f"{page}/arquivo", on=page, document=DOCUMENT, mode="test")
    assert (seen.status, "Não guardamos nada" in seen.text) == (400, True)


async def test_an_erasure_needs_a_reason_a_confirmation_and_no_open_charge(pool: Pool, staff: Person) -> None:
    books, page = await merchant_with_payer_page(pool)
    paid = await books.charge(payer=PAYER)
    await books.paid(paid)
    still_open = await books.charge(payer=PAYER)
    given: dict[str, Any] = {"document": DOCUMENT, "mode": "production", "reason": "pedido do titular", "sure": "yes"}
    for left_out, fault in (("reason", "Escreva o motivo"), ("sure", "Confirme"), ("document", "Informe o CPF")):
        seen = await staff.post(f"{page}/apagar", on=page, **{**given, left_out: ""})
        assert (seen.status, fault in seen.text) == (400, True), left_out
    seen = await staff.post(f"{page}/apagar", on=page, **given)
    assert (seen.status, "Falta encerrar: cobranças que ainda podem ser pagas (1)." in seen.text) == (400, True)
    assert await audit_entries(pool, books) == []
    await books.paid(still_open)
    seen = await staff.post(f"{page}/apagar", on=page, **given)
    assert seen.where.endswith("?feito=pagador-apagado"), seen.text
    held = "SELECT count(*) FROM charge WHERE account_id = $1 AND payer_sealed IS NOT NULL"
    assert await pool.fetchval(held, books.account_id) == 0
    assert [action for action, _ in await audit_entries(pool, books)] == ["payer.erasure_asked", "payer.erased"]
    platform = "SELECT count(*) FROM audit WHERE email = $1 AND action = 'payer.erased'"
    assert await pool.fetchval(platform, staff.email) == 1
    seen = await staff.post(f"{page}/apagar", on=page, **given)
    assert (seen.status, "Não guardamos nada" in seen.text) == (400, True)


async def test_export_and_erasure_ask_for_the_password_again(pool: Pool, staff: Person, clock: Clock) -> None:
    books, page = await merchant_with_payer_page(pool)
    await books.charge(payer=PAYER | {"name": f"Ana {new_token()}"})
    form = await staff.opened(page)
    await pool.execute(
        "UPDATE dashboard_session SET proved_at = proved_at - interval '6 minutes' WHERE email = $1", staff.email
    )
    for what in ("arquivo", "apagar"):
        seen = await staff.post(
            f"{page}/{what}", form=form, document=DOCUMENT, mode="production", sure="yes", reason="x"
        )
        assert (seen.status, "step_up_password" in seen.html) == (403, True)
    assert await audit_entries(pool, books) == []
    gone = await staff.get(f"/plataforma/lojas/{new_token()}/pagador")
    assert gone.status == 404
