"""No staff page offers an action that its reader may not take, and a role that only reads sees no whole document."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import pytest_asyncio

from commands.merchants.payout_key import ask_payout_key
from commands.money.suspense import SuspendedMoney, suspend_money
from domain.merchants.payout import PayoutKey
from domain.merchants.staff import ROLES
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from runtime.seal import SUSPENDED_PAYER, Seal
from tests.support.dashboard import Person, settings_with, staff_in_browser
from tests.support.pages import serving
from tests.support.webhooks import create_merchant_with_endpoint
from web.painel.route import Page, grants_of
from web.painel.table import TABLE as PAINEL
from web.plataforma.table import TABLE

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
DOCUMENT, KEY = "12345678909", "11144477735"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pages(pool: Pool) -> AsyncIterator[list[str]]:
    """A page of every kind in the section, each with something to act on."""
    now, seal, source = datetime.now(UTC), Seal(SETTINGS.secret_key), f"E99999994{new_id().hex[:23]}"
    merchant = await create_merchant_with_endpoint(pool, "https://receiver.example.com/hook")
    account = merchant.account_id
    await pool.execute("UPDATE account SET kyc = 'pending' WHERE account_id = $1", account)
    await pool.execute(
        "UPDATE webhook_lane SET state = 'paused', paused_at = now() WHERE endpoint_id = (SELECT endpoint_id FROM"
        " webhook_endpoint WHERE account_id = $1)",
        account,
    )
    payer = seal.seal(f'{{"name": "Fulana", "document": "{DOCUMENT}"}}'.encode(), SUSPENDED_PAYER, source)
    money = SuspendedMoney(
        suspense_id=new_id(), kind="pix_without_txid", source=source, reference=None, amount_cents=1234,
        received_at=now - timedelta(minutes=1), payer_sealed=payer,
    )  # fmt: skip
    async with transaction(pool) as conn:
        await suspend_money(conn, [money], bank="001", now=now)
        await ask_payout_key(conn, account, PayoutKey(KEY, KEY), by="bia@example.com", by_staff=True, now=now)
    order = await _insert_stuck_order(pool, account, now)
    yield [
        "", "/busca", "/lojas", "/lojas/nova", f"/lojas/{account}", f"/lojas/{account}/dados",
        f"/lojas/{account}/pagador", "/pendencias", "/divergencias", "/a-identificar",
        f"/a-identificar/{money.suspense_id}", "/devolucoes", "/parceiros", "/relatorios", "/relatorios/receipts",
        "/banco", "/equipe", "/auditoria", "/celula", "/acesso",
    ]  # fmt: skip
    await pool.execute("DELETE FROM bank_order WHERE order_id = $1", order)


async def _insert_stuck_order(pool: Pool, account: UUID, now: datetime) -> UUID:
    order_id = new_id()
    await pool.execute(
        "INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, attempts, due_at,"
        " created_at) VALUES ($1, $2, $3, false, '001', 'refund_return', '{}', 'waiting', 9, $4, $5)",
        order_id, account, new_id(), now + timedelta(hours=1), now - timedelta(hours=30),
    )  # fmt: skip
    return order_id


@pytest_asyncio.fixture(loop_scope="session", params=ROLES)
async def role_and_person(
    request: pytest.FixtureRequest, pool: Pool, address: str
) -> AsyncIterator[tuple[str, Person]]:
    role: str = request.param
    async with staff_in_browser(pool, address, role=role) as person:
        yield role, person


def row_of(method: str, path: str) -> Page:
    """The row of the table that serves this path: of those that match, the one with the fewest parameters."""
    rows = [
        row
        for row in TABLE
        if row.method == method and re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", row.whole_path), path)
    ]
    assert rows, (method, path)
    return min(rows, key=lambda row: row.whole_path.count("{"))


def actions_offered(html: str) -> set[tuple[str, str]]:
    forms = re.findall(r'<form[^>]*?method="(post|get)"[^>]*? action="([^"?]+)', html)
    more = re.findall(r' formaction="([^"?]+)', html)
    links = re.findall(r'<a[^>]* href="(/plataforma[^"?#]*)', html)
    return (
        {(method.upper(), to) for method, to in forms} | {("POST", to) for to in more} | {("GET", to) for to in links}
    )


async def test_no_page_offers_an_action_that_its_reader_may_not_take(
    role_and_person: tuple[str, Person], pages: list[str]
) -> None:
    role, person = role_and_person
    done: set[str] = set()
    for path in pages:
        seen = await person.get(f"/plataforma{path}")
        assert (seen.status == 200) == (role in row_of("GET", f"/plataforma{path}").roles), (path, seen.status)
        if seen.status != 200:
            continue
        for method, to in actions_offered(seen.html):
            row = row_of(method, to)
            assert role in row.roles, f"{path or '/'} offers {method} {to} to {role}"
            done.add(f"{row.method} {row.path}")
    # The pages do offer the actions that each role is for, so the check above is not empty.
    assert "POST /sair" in done
    one = "/lojas/{account_id:str}"
    own = {
        "operations": {f"POST {one}/cadastro", f"POST {one}/webhook/retomar", "POST /pix/suspender",
                       "POST /pendencias/pedidos/{order_id:str}/tentar",
                       "POST /a-identificar/{suspense_id:str}/atribuir", f"POST {one}/conferencia",
                       f"POST {one}/limites", f"POST {one}/pagador/apagar"},
        "finance": {f"POST {one}/chave/confirmar", f"POST {one}/chave/cancelar", f"POST {one}/devolucoes/liberar",
                    "POST /parceiros"},
    }  # fmt: skip
    wanted: dict[str, set[str]] = {**own, "admin": own["operations"] | own["finance"] | {"POST /equipe"}}
    assert wanted.get(role, set()) <= done
    if role == "support":
        changing = {each for each in done if each.startswith("POST")}
        assert changing <= {"POST /busca", "POST /sair", "POST /sair-de-tudo", "POST /acesso/senha"}


async def test_a_role_that_only_reads_sees_every_document_masked(pool: Pool, address: str, pages: list[str]) -> None:
    async with staff_in_browser(pool, address, role="support") as person:
        read = [await person.get(f"/plataforma{path}") for path in pages]
    html = " ".join(each.html for each in read if each.status == 200)
    assert "Fulana" in html
    assert "***.456.789-**" in html
    for whole in (DOCUMENT, "123.456.789-09", KEY, "111.444.777-35"):
        assert whole not in html, whole


def test_support_of_the_platform_sees_payers_masked_and_support_of_a_merchant_does_not() -> None:
    """The two roles have the same name."""
    assert grants_of(PAINEL)["support"].payers
    assert not any(grant.payers for grant in grants_of(TABLE).values())
