"""The webhook pages end to end: registering an address, its secret, the delivery of a test event, and sending again."""

import asyncio
import hmac
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio

from banks.protocol import Location
from commands.bank_orders.pix_locations import add_to_pool
from commands.merchants.merchants import MerchantCreated
from commands.webhooks.address import AddressFault
from commands.webhooks.endpoint import OLD_SECRETS_MAX, set_endpoint
from domain.events import DEFAULT_KINDS, EventKind
from domain.mode import Mode
from readmodels.webhooks.endpoint import LaneHealth
from runtime.postgres import Pool, transaction
from tests.support.banking import BANK, new_locations
from tests.support.dashboard import Books, Person, Seen, a_merchant, owner_in_browser, settings_with
from tests.support.pages import serving
from tests.support.webhooks import KEY, SEAL, Receiver, Request, receiving, webhook_worker
from web.painel.settings.webhooks import FAULTS

PATH = "/painel/webhooks"
TEST_DELIVERIES = "/painel/teste/webhooks/entregas"
SETTINGS = settings_with(SECRET_KEY=KEY, WEBHOOK_ALLOW_PRIVATE="1")


class Environment(NamedTuple):
    merchant: MerchantCreated
    person: Person
    books: Books


class Clock:
    """The dashboard's clock; the worker uses the real one."""

    behind = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) - self.behind


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, clock: Clock) -> AsyncIterator[Environment]:
    merchant = await a_merchant(pool)
    async with serving(pool, clock.now, SETTINGS) as address, owner_in_browser(address, merchant) as person:
        yield Environment(merchant, person, Books(pool, merchant.account_id, SEAL))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def worker(pool: Pool, servers: Any) -> AsyncIterator[None]:
    async with webhook_worker(pool, servers.redis_url, every_s=0.1):
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locations(pool: Pool) -> None:
    """PIX locations of the sandbox, which a worker would keep in stock."""
    async with pool.acquire() as conn:
        await add_to_pool(conn, Mode.SANDBOX, BANK, new_locations(20))


async def register(env: Environment, receiver: Receiver) -> str:
    """Register this receiver as the endpoint; return the signing secret."""
    seen = await env.person.post(PATH, on=PATH, url=receiver.url)
    assert seen.status == 200, seen.text[:400]
    return seen.field("Segredo de assinatura")


def is_signed(request: Request, secret: str, header: str = "X-Service-Signature") -> bool:
    signed = request.headers["X-Service-Timestamp"].encode() + b"." + request.body
    wanted = "sha256=" + hmac.new(secret.encode(), signed, "sha256").hexdigest()
    return request.headers.get(header) == wanted


def delivery_ids(seen: Seen) -> list[str]:
    """The delivery ids of a page, in its order."""
    return re.findall(r'class="row-link" href="[^"]*/([0-9a-f-]{36})"', seen.html)


async def test_a_test_event_is_a_real_delivery_signed_with_the_secret_shown_once(
    env: Environment, worker: None, locations: None, pool: Pool
) -> None:
    async with receiving() as receiver:
        assert "Nenhum endereço cadastrado" in (await env.person.opened("/painel")).text
        secret = await register(env, receiver)
        assert secret.startswith("whsec_")
        assert secret not in (await env.person.opened(PATH)).html
        done = await env.person.post("/painel/teste/webhooks/testar", on=PATH)
        assert done.where == f"{TEST_DELIVERIES}?feito=teste"
        await receiver.reached(1)
        (request,) = receiver.requests
        assert is_signed(request, secret)
        body = json.loads(request.body)
        assert (body["event"], body["test"], body["amount"]) == ("payment.received", True, "1.00")
        # A receiver that reads the charge again, as it should, finds it paid.
        page = await env.person.opened(f"/painel/teste/cobrancas/{body['charge_id']}")
        assert "Paga" in page.text
        listed = await _until_shown(env, TEST_DELIVERIES, "Entregue")
        assert "Recebida (200)" in listed.text
        (delivery_id,) = delivery_ids(listed)
        assert delivery_id == request.headers["X-Service-Delivery-Id"]
        shown = await env.person.opened(f"{TEST_DELIVERIES}/{delivery_id}")
        assert body["event_id"] in shown.text
        assert "tentativa 1" in shown.text
        assert "ok" in shown.html
        assert "tentativa 1" in (await env.person.opened(f"/painel/teste/cobrancas/{body['charge_id']}")).text
        # The delivery belongs to the test section; production lists none.
        assert (await env.person.get(f"/painel/webhooks/entregas/{delivery_id}")).status == 404
        assert delivery_ids(await env.person.opened("/painel/webhooks/entregas")) == []


async def test_a_test_event_without_a_pix_location_in_stock_is_refused_and_creates_nothing(
    env: Environment, pool: Pool
) -> None:
    kept = await pool.fetch("DELETE FROM pix_location WHERE test RETURNING location_ids, locations")
    try:
        async with receiving() as receiver:
            await register(env, receiver)
            seen = await env.person.post("/painel/teste/webhooks/testar", on=PATH)
            assert (seen.status, "O banco não confirmou" in seen.text) == (502, True)
            assert "Nenhuma cobrança ainda." in (await env.person.opened("/painel/teste/cobrancas")).text
    finally:
        async with pool.acquire() as conn:
            for row in kept:
                block = [Location(*each) for each in zip(row["location_ids"], row["locations"], strict=True)]
                await add_to_pool(conn, Mode.SANDBOX, "001", block)


async def test_after_a_rotation_the_new_secret_signs_and_the_old_one_too_for_a_day(
    env: Environment, clock: Clock, worker: None, locations: None
) -> None:
    async with receiving() as receiver:
        first = await register(env, receiver)
        clock.behind = timedelta(hours=24) - timedelta(minutes=1)
        second = (await env.person.post(f"{PATH}/segredo", on=PATH)).field("Segredo de assinatura")
        clock.behind = timedelta(0)
        await env.person.post("/painel/teste/webhooks/testar", on=PATH)
        await receiver.reached(1)
        assert is_signed(receiver.requests[0], second)
        assert is_signed(receiver.requests[0], first, "X-Service-Signature-Previous")
        assert "X-Service-Signature-Previous" in (await env.person.opened(PATH)).text
        # The second secret was rotated a day and a second ago and signs no more; the first has some seconds left.
        clock.behind = timedelta(hours=24, seconds=1)
        third = (await env.person.post(f"{PATH}/segredo", on=PATH)).field("Segredo de assinatura")
        clock.behind = timedelta(0)
        await env.person.post("/painel/teste/webhooks/testar", on=PATH)
        await receiver.reached(2)
        assert is_signed(receiver.requests[1], third)
        assert is_signed(receiver.requests[1], first, "X-Service-Signature-Previous")
        assert not is_signed(receiver.requests[1], second, "X-Service-Signature-Previous")


async def test_the_sixth_secret_of_a_day_is_refused_and_the_page_says_what_to_do(env: Environment) -> None:
    async with receiving() as receiver:
        await register(env, receiver)
        for _ in range(OLD_SECRETS_MAX):
            assert (await env.person.post(f"{PATH}/segredo", on=PATH)).field("Segredo de assinatura")
        refused = await env.person.post(f"{PATH}/segredo", on=PATH)
        assert (refused.status, "Já há 5 segredos antigos que ainda assinam" in refused.text) == (400, True)
        assert "Encerrar os antigos agora" in refused.text
        await env.person.post(f"{PATH}/segredo-antigo", on=PATH)
        assert (await env.person.post(f"{PATH}/segredo", on=PATH)).field("Segredo de assinatura")


async def test_ending_the_old_secrets_stops_their_signatures_at_once(
    env: Environment, worker: None, locations: None
) -> None:
    async with receiving() as receiver:
        await register(env, receiver)
        await env.person.post(f"{PATH}/segredo", on=PATH)
        done = await env.person.post(f"{PATH}/segredo-antigo", on=PATH)
        assert done.where == f"{PATH}?feito=antigo"
        await env.person.post("/painel/teste/webhooks/testar", on=PATH)
        await receiver.reached(1)
        assert "X-Service-Signature-Previous" not in receiver.requests[0].headers


async def test_moving_the_address_keeps_the_secret(env: Environment, worker: None, locations: None) -> None:
    async with receiving() as before, receiving() as after:
        secret = await register(env, before)
        done = await env.person.post(f"{PATH}/endereco", on=PATH, url=f"{after.url}?key=only-the-receivers")
        assert done.where == f"{PATH}?feito=endereco"
        log = (await env.person.opened("/painel/auditoria")).text
        assert "Mudou o endereço do webhook http://127.0.0.1" in log
        assert "only-the-receivers" not in log
        await env.person.post("/painel/teste/webhooks/testar", on=PATH)
        await after.reached(1)
        assert is_signed(after.requests[0], secret)
        assert not before.requests


@pytest.mark.parametrize(
    "url", ["", "nada", "ftp://example.com", "https://u:p@example.com", "https://a b.com", "https://" + "x" * 2050]
)
async def test_an_invalid_address_is_refused_beside_its_field(env: Environment, url: str) -> None:
    seen = await env.person.post(PATH, on=PATH, url=url)
    assert seen.status == 400
    assert 'id="url-fault" role="alert"' in seen.html
    assert "Cadastrar webhook" in seen.text


@pytest.mark.parametrize(
    "url", ["http://example.com/", "https://127.0.0.1/", "https://localhost/", "https://a.internal/"]
)
async def test_an_address_that_is_not_public_is_refused_unless_private_addresses_are_allowed(
    pool: Pool, url: str
) -> None:
    merchant = await a_merchant(pool)
    strict = settings_with(SECRET_KEY=KEY)
    async with (
        serving(pool, lambda: datetime.now(UTC), strict) as address,
        owner_in_browser(address, merchant) as person,
    ):
        assert (await person.post(PATH, on=PATH, url=url)).status == 400
        # Moving an endpoint to such an address is refused too.
        public = "https://loja.example.com/hook"
        async with transaction(pool) as conn:
            await set_endpoint(
                conn, merchant.account_id, public, allow_private=False, now=datetime.now(UTC), seal=SEAL,
                chance=bytes(32),
            )  # fmt: skip
        assert (await person.post(f"{PATH}/endereco", on=PATH, url=url)).status == 400
        assert public in (await person.opened(PATH)).html


def test_every_fault_of_an_address_has_a_text_in_portuguese() -> None:
    assert set(FAULTS) == set(AddressFault)


async def test_the_two_default_event_kinds_cannot_be_deselected_and_others_can_be_chosen(
    env: Environment, pool: Pool
) -> None:
    async with receiving() as receiver:
        await register(env, receiver)
        page = await env.person.opened(PATH)
        assert all(f'value="{kind}"' in page.html for kind in EventKind)
        assert page.html.count(" disabled>") == len(DEFAULT_KINDS)
        await env.person.post(f"{PATH}/eventos", on=PATH, kind=["charge.expired", "nada"])
        kinds = await pool.fetchval("SELECT kinds FROM webhook_endpoint WHERE account_id = $1", env.merchant.account_id)
        assert set(kinds) == {*DEFAULT_KINDS, "charge.expired"}
        await env.person.post(f"{PATH}/eventos", on=PATH)
        assert set(
            await pool.fetchval("SELECT kinds FROM webhook_endpoint WHERE account_id = $1", env.merchant.account_id)
        ) == set(DEFAULT_KINDS)


async def test_a_delivery_or_a_range_of_events_can_be_sent_again(env: Environment, worker: None, pool: Pool) -> None:
    async with receiving(lambda number: 500 if number <= 3 else 200) as receiver:
        await register(env, receiver)
        for amount in (1_00, 2_00, 3_00):
            await env.books.paid(await env.books.charge(amount))
        await receiver.reached(3)
        listed = await env.person.opened("/painel/webhooks/entregas")
        assert len(delivery_ids(listed)) == 3
        await _until_shown(env, "/painel/webhooks/entregas?state=delivered", "Entregue", count=3)
        pages = [await env.person.opened(f"/painel/webhooks/entregas/{each}") for each in delivery_ids(listed)]
        assert sum(page.text.count("Recusada pelo seu servidor 500") for page in pages) == 3
        seen = len(receiver.requests)
        one = delivery_ids(listed)[0]
        path = f"/painel/webhooks/entregas/{one}"
        assert (await env.person.post(f"{path}/reenviar", on=path)).where == f"{path}?feito=reenviada"
        await receiver.reached(seen + 1)
        assert receiver.requests[-1].headers["X-Service-Delivery-Id"] == one
        # The page shows the body as it was signed, sent and received, byte for byte.
        sent = re.search(r'aria-label="Corpo enviado">([^<]+)</pre>', (await env.person.opened(path)).html)
        assert sent is not None
        assert unescape(sent[1]).encode() == receiver.requests[-1].body
        form = await env.person.opened("/painel/webhooks/entregas")
        done = await env.person.post("/painel/webhooks/entregas", form=form, from_sequence="1", to_sequence="2")
        assert done.where == "/painel/webhooks/entregas?feito=faixa"
        await receiver.reached(seen + 3)
        assert {msgspec.json.decode(each.body)["amount"] for each in receiver.requests[-2:]} == {"1.00", "2.00"}
        for first, last in (("2", "1"), ("x", "2"), ("", ""), ("1", "20000"), ("0", "1"), ("9" * 30, "9" * 30)):
            form = await env.person.opened("/painel/webhooks/entregas")
            fields = {"from_sequence": first, "to_sequence": last}
            seen_page = await env.person.post("/painel/webhooks/entregas", form=form, **fields)
            assert (seen_page.status, 'id="range-fault"' in seen_page.html) == (400, True), (first, last)


async def test_a_paused_endpoint_is_reported_on_both_pages_and_resumes_on_request(
    env: Environment, worker: None, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as receiver:
        await register(env, receiver)
        await pool.execute(
            "UPDATE webhook_lane SET state = 'paused', paused_at = now(), paused_reason = 'no_success',"
            " blocked_until = now() + interval '1 hour', consecutive_failures = 13, failing_since = now()"
            " WHERE NOT test AND endpoint_id = (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = $1)",
            env.merchant.account_id,
        )
        await env.books.paid(await env.books.charge())
        assert "Webhook de produção pausado" in (await env.person.opened("/painel")).text
        page = await env.person.opened(PATH)
        assert "nenhuma entrega aceita por muito tempo" in page.text
        assert "Retidas 1" in page.text
        with monkeypatch.context() as counted:  # a count that stopped says so
            counted.setattr(LaneHealth, "counted_max", 1)
            assert "Retidas mais de 1" in (await env.person.opened(PATH)).text
            assert "mais de 1 retidas" in (await env.person.opened("/painel")).text
        assert "Retomar entregas de teste" not in page.text
        done = await env.person.post(f"{PATH}/retomar", form=page)
        assert done.where == f"{PATH}?feito=retomada"
        await receiver.reached(1)
        assert "Retomar" not in (await env.person.opened(PATH)).text


async def test_an_endpoint_whose_receiver_asked_to_wait_is_reported_and_resumes_on_request(
    env: Environment, pool: Pool
) -> None:
    async with receiving() as receiver:
        await register(env, receiver)
        await pool.execute(
            "UPDATE webhook_lane SET blocked_until = now() + interval '1 hour', consecutive_failures = 1"
            " WHERE NOT test AND endpoint_id = (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = $1)",
            env.merchant.account_id,
        )
        page = await env.person.opened(PATH)
        assert "Seu servidor pediu espera" in page.text
        assert "Retomar entregas de produção" in page.text
        await env.person.post(f"{PATH}/retomar", form=page)
        page = await env.person.opened(PATH)
        assert "Seu servidor pediu espera" not in page.text
        assert "Retomar" not in page.text
        assert "com falhas recentes" in page.text, "resuming does not reset the recent failures"


async def test_an_active_endpoint_with_recent_failures_is_reported_as_such_on_both_pages(
    env: Environment, pool: Pool
) -> None:
    async with receiving() as receiver:
        await register(env, receiver)
        for page in (PATH, "/painel"):
            assert "com falhas recentes" not in (await env.person.opened(page)).text
        await pool.execute(
            "UPDATE webhook_lane SET consecutive_failures = 3, failing_since = now()"
            " WHERE NOT test AND endpoint_id = (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = $1)",
            env.merchant.account_id,
        )
        for page in (PATH, "/painel"):
            text = (await env.person.opened(page)).text
            assert text.count("Funcionando, com falhas recentes") == 1
            assert (text.count("Funcionando"), text.count("Sem entregas ainda")) == (
                1,
                1,
            )  # the other mode has no deliveries yet
        assert "Falhas seguidas 3" in (await env.person.opened(PATH)).text


async def test_after_removing_the_endpoint_every_action_on_it_is_refused(env: Environment, pool: Pool) -> None:
    async with receiving() as receiver:
        await register(env, receiver)
        assert (await env.person.post(f"{PATH}/remover", on=PATH)).status == 400
        done = await env.person.post(f"{PATH}/remover", on=PATH, sure="yes")
        assert done.where == f"{PATH}?feito=removido"
        assert "Cadastrar o endereço" in (await env.person.opened(PATH)).text
        # Every action that needs an endpoint is refused.
        for path in ("segredo", "segredo-antigo", "eventos", "retomar", "endereco"):
            seen = await env.person.post(f"{PATH}/{path}", on=PATH, url=receiver.url)
            assert seen.status == 400, path
        assert (await env.person.post("/painel/teste/webhooks/testar", on=PATH)).status == 400


async def test_deliveries_of_other_accounts_or_of_the_other_mode_answer_like_unknown_ones(
    env: Environment, worker: None, pool: Pool, clock: Clock
) -> None:
    theirs = await a_merchant(pool)
    async with (
        receiving() as receiver,
        serving(pool, clock.now, SETTINGS) as address,
        owner_in_browser(address, theirs) as them,
    ):
        await register(env, receiver)
        other = Environment(theirs, them, Books(pool, theirs.account_id, SEAL))
        await register(other, receiver)
        await other.books.paid(await other.books.charge())
        await env.books.paid(await env.books.charge())
        await receiver.reached(2)
        (foreign,) = delivery_ids(await them.opened("/painel/webhooks/entregas"))
        (mine,) = delivery_ids(await env.person.opened("/painel/webhooks/entregas"))
        unknown = await env.person.get(f"/painel/webhooks/entregas/{uuid4()}")
        for path in (f"/painel/webhooks/entregas/{foreign}", f"{TEST_DELIVERIES}/{mine}", f"{TEST_DELIVERIES}/x"):
            seen = await env.person.get(path)
            assert (seen.status, seen.html) == (404, unknown.html)
            assert (await env.person.post(f"{path}/reenviar")).status == 404


def rows_offset(seen: Seen) -> int:
    """The offset at which a list's rows begin, after the filters, which use the same words."""
    return max(seen.html.find("<tbody>"), 0)


async def _until_shown(env: Environment, path: str, text: str, *, count: int = 1) -> Seen:
    async with asyncio.timeout(30):
        while (seen := await env.person.opened(path)).html[rows_offset(seen) :].count(text) < count:  # noqa: ASYNC110 - a page has no event
            await asyncio.sleep(0.05)
    return seen
