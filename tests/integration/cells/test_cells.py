"""Merchants of several cells behind one address: each request works in one database, and no cell needs another."""

import asyncio
import secrets
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode, urlsplit
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio
from joserfc import jws
from joserfc.jwk import KeySet
from msgspec.structs import replace
from structlog.testing import capture_logs

from banks.banco_do_brasil.nosso_numero import number_at_bank
from banks.protocol import Done
from banks.received import ReceivedPix
from cli.main import main
from cli.run.asgi_front import Front, make_front
from cli.run.cells import CellRouter, ServedCell
from commands.mail import address_hash, stop_token
from commands.merchants.account_export import AccountNotReady, export_account
from commands.people.invitations import invite
from commands.people.links import LinkPurpose, make_link
from commands.people.staff import add_staff
from commands.people.tell import SecurityMail
from commands.webhooks.endpoint import set_endpoint
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.cells.directory import Addresses, Cell, WrongCell, check_cell
from runtime.cells.number import HOME, cell_of, cell_of_hex, cell_of_token, in_cell
from runtime.ids import new_id
from runtime.local.embedded import EmbeddedPostgres
from runtime.passwords import hash_password
from runtime.postgres import Pool, connect, open_pool
from runtime.seal import Seal, read_keys
from runtime.settings import Settings
from tests.support.banking import BANK, SECRET_KEY, make_account, make_charges, worker_context
from tests.support.cells import Cells, open_cells, second_server
from tests.support.database import own_database, owner_of
from tests.support.in_process import Reply, envelope
from workers.cells import enter_own_cell
from workers.incoming.boleto_payments import Unbooked, suspend_unknown
from workers.incoming.pix_payments import book_pix
from workers.mail.personal import personal_letter
from workers.orders.pix import PixOrderWorker

ALA, BELA = 1, 2
TODAY = datetime.now(UTC).date()
FORM = (b"content-type", b"application/x-www-form-urlencoded")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cells(servers: Any, second: EmbeddedPostgres) -> AsyncIterator[Cells]:
    async with open_cells(servers, second) as opened:
        yield opened


async def token_of(cells: Cells, number: int, mode: str = "test") -> str:
    return await cells.api.token(cells.merchants[number], mode)


async def create(cells: Cells, number: int, *, mode: str = "test", key: str | None = None) -> Reply:
    body = {"account_id": str(cells.merchants[number].account_id), "amount": "10.00"}
    token = await token_of(cells, number, mode)
    return await cells.api.post("/v1/charges/pix", body, token=token, key=key or secrets.token_hex(8))


@contextmanager
def connections_taken() -> Iterator[Counter[int]]:
    """Counts the connections that requests of this block, and tasks they start, take, by the cell of the pool. Periodic
    tasks of the process do not count: they began earlier, in another context."""
    taken: Counter[int] = Counter()
    acquire = Pool.acquire

    def counting(self: Pool, *, timeout: float | None = None) -> Any:
        if counted_here.get():
            taken[int(self.name.partition(" of cell ")[2] or HOME)] += 1
        return acquire(self, timeout=timeout)

    here = counted_here.set(True)
    with patch.object(Pool, "acquire", counting):
        yield taken
    counted_here.reset(here)


counted_here: ContextVar[bool] = ContextVar("counted_here", default=False)


@pytest.mark.parametrize("number", [HOME, ALA, BELA, 3])
async def test_every_id_and_token_of_a_merchant_names_its_cell(cells: Cells, number: int) -> None:
    token = await token_of(cells, number)
    made = await create(cells, number)
    assert made.status == 201, made
    charge = made.json()
    paid = await cells.api.post(f"/v1/charges/{charge['charge_id']}/simulate-payment", None, token=token)
    assert paid.status == 200, paid
    back = await cells.api.post(f"/v1/charges/{charge['charge_id']}/refunds", {}, token=token, key=secrets.token_hex(8))
    events = (await cells.api.get("/v1/events", token=token)).json()["data"]
    ids = [charge["charge_id"], paid.json()["payment"]["payment_id"], back.json()["refund_id"]]
    ids += [event["event_id"] for event in events]
    assert {cell_of(UUID(each)) for each in ids} == {number}
    assert {cell_of_token(each) for each in (token, charge["public_id"])} == {number}
    assert UUID(charge["pix"]["txid"]) == UUID(charge["charge_id"])


@pytest.mark.parametrize("number", [HOME, ALA, BELA, 3])
async def test_each_request_works_in_one_database(cells: Cells, number: int) -> None:
    """From the token request to the payer's page no connection of another cell is taken."""
    with connections_taken() as taken:
        charge = (await create(cells, number)).json()
        token = await token_of(cells, number)
        for path in (f"/v1/charges/{charge['charge_id']}", "/v1/charges", "/v1/events", "/v1/me"):
            assert (await cells.api.get(path, token=token)).status == 200
        page = await cells.api.get(f"/pagar/{charge['public_id']}", token=None)
        assert page.status == 200
    assert list(taken) == [number]


async def test_a_credential_of_one_cell_opens_nothing_of_another(cells: Cells) -> None:
    charge = (await create(cells, ALA)).json()
    for number in (HOME, BELA, 3):
        found = await cells.api.get(f"/v1/charges/{charge['charge_id']}", token=await token_of(cells, number))
        assert (found.status, found.code()) == (404, "CHARGE_NOT_FOUND")
    # A token that was altered to lead to another cell is unknown there.
    token = await token_of(cells, ALA)
    for code in ("AA", "AC", "AD", "__"):
        found = await cells.api.get("/v1/charges", token=code + token[2:])
        assert (found.status, found.code()) == (401, "UNAUTHENTICATED")


async def test_an_idempotency_key_belongs_to_its_cell(cells: Cells) -> None:
    """The same key used by merchants of two cells makes two charges; repeated by one merchant it is replayed."""
    key = secrets.token_hex(8)
    first, other = await create(cells, ALA, key=key), await create(cells, BELA, key=key)
    assert (first.status, other.status) == (201, 201)
    again = await create(cells, ALA, key=key)
    assert (again.status, again.header("idempotent-replayed"), again.json()) == (200, "true", first.json())


async def test_token_requests_reach_the_clients_cell_in_every_form_of_credentials(cells: Cells) -> None:
    credential = cells.merchants[BELA].production
    pair = f"{credential.client_id}:{credential.client_secret}".encode()
    basic = (b"authorization", b"Basic " + b64encode(pair))
    grant = {"grant_type": "client_credentials"}
    both = {**grant, "client_id": credential.client_id, "client_secret": credential.client_secret}
    for headers, body in (
        ([FORM, basic], urlencode(grant).encode()),
        ([FORM], urlencode(both).encode()),
        ([(b"content-type", b"application/json")], msgspec.json.encode(both)),
    ):
        reply = await cells.api.ask("POST", "/v1/oauth/token", headers=headers, body=body)
        assert reply.status == 200, reply
        assert cell_of_token(reply.json()["access_token"]) == BELA


async def test_boleto_numbers_of_cells_come_from_blocks_that_do_not_overlap(cells: Cells) -> None:
    taken = {}
    for number, url in cells.urls.items():
        conn = await connect(url)
        taken[number] = await conn.fetchval("SELECT nextval('boleto_control')")
        await conn.close()
    assert taken[HOME] < 1_000
    assert [taken[number] // 100_000_000 for number in (1, 2, 3)] == [99, 98, 97]
    owner = await connect(cells.owner_urls[HOME])
    limit = await owner.fetchval("SELECT max_value FROM pg_sequences WHERE sequencename = 'boleto_control'")
    await owner.close()
    assert limit + 49 < 9_700_000_000


async def sign_in(cells: Cells, email: str, password: str) -> tuple[Reply, bytes]:
    """Signs in to the dashboard; returns the answer of the form and the cookies it sets."""
    form = await cells.api.get("/painel/entrar", token=None)
    cookies = [value.split(b";")[0] for name, value in form.headers if name == b"set-cookie"]
    csrf = form.body.decode().partition('name="csrf" value="')[2].partition('"')[0]
    body = urlencode({"csrf": csrf, "email": email, "password": password, "para": ""}).encode()
    origin = (b"origin", b"https://api.example.com")
    headers = [FORM, (b"cookie", b"; ".join(cookies)), origin, (b"sec-fetch-site", b"same-origin")]
    reply = await cells.api.ask("POST", "/painel/entrar", headers=headers, body=body)
    return reply, b"; ".join(value.split(b";")[0] for name, value in reply.headers if name == b"set-cookie")


@pytest.mark.parametrize("number", [HOME, ALA, BELA])
async def test_people_sign_in_at_one_address_whatever_cell_their_account_is_in(cells: Cells, number: int) -> None:
    dashboard = cells.merchants[number].dashboard
    refused, _ = await sign_in(cells, dashboard.email, "not the password at all")
    assert refused.status == 403
    entered, cookie = await sign_in(cells, dashboard.email, dashboard.password)
    assert entered.status == 303, entered
    page = await cells.api.ask("GET", "/painel", headers=[(b"cookie", cookie)])
    assert page.status == 200
    assert cells.merchants[number].name in page.body.decode()


async def test_concurrent_sign_ins_search_the_cells_with_bounded_concurrency(cells: Cells, monkeypatch: Any) -> None:
    """The cells are searched before a rate limit counts: without a bound a flood would take all their connections."""
    looking = most = 0

    async def look(conn: Any, *, email: str) -> bool:
        nonlocal looking, most
        looking += 1
        most = max(most, looking)
        await asyncio.sleep(0.01)
        looking -= 1
        return False

    monkeypatch.setattr("cli.run.cells.has_email", look)
    await asyncio.gather(*(sign_in(cells, f"n{n}@example.com", "not the password at all") for n in range(20)))
    assert 0 < most <= 4 * len(cells.urls)


async def ask_for_new_password(cells: Cells, email: str) -> None:
    form = await cells.api.get("/painel/recuperar", token=None)
    cookies = b"; ".join(value.split(b";")[0] for name, value in form.headers if name == b"set-cookie")
    csrf = form.body.decode().partition('name="csrf" value="')[2].partition('"')[0]
    body = urlencode({"csrf": csrf, "email": email}).encode()
    asked = await cells.api.ask("POST", "/painel/recuperar", headers=[FORM, (b"cookie", cookies)], body=body)
    assert asked.status == 200


async def test_the_link_to_a_new_password_is_mailed_by_each_cell_of_the_person(cells: Cells) -> None:
    """A person of ALA and, under the same e-mail, of home; in BELA, whose link has expired, only invited."""
    email = f"ana.{secrets.token_hex(4)}@example.com"
    for number in (HOME, ALA):
        merchant = await cells.merchant(number)
        async with cells.pool(number) as pool:
            await pool.execute("UPDATE dashboard_user SET email = $1 WHERE email = $2", email, merchant.dashboard.email)
    async with cells.pool(BELA) as pool, pool.acquire() as conn:
        inviting = cells.merchants[BELA]
        by = inviting.dashboard.email
        await invite(conn, inviting.account_id, email, "Ana", "owner", by=by, now=datetime.now(UTC))
    await ask_for_new_password(cells, email)
    for number, mails in ((HOME, 1), (ALA, 1), (BELA, 1), (3, 0)):
        async with cells.pool(number) as pool:
            mailed = "SELECT count(*) FROM mail WHERE kind = 'access' AND to_hash = $1"
            assert await pool.fetchval(mailed, address_hash(email, cells.seal)) == mails, number


async def test_a_cell_in_which_too_many_passwords_were_tried_keeps_nobody_out_of_another(cells: Cells) -> None:
    merchants = {number: await cells.merchant(number) for number in (HOME, ALA)}
    person, elsewhere = merchants[HOME].dashboard, merchants[ALA].dashboard
    async with cells.pool(ALA) as pool:
        await pool.execute("UPDATE dashboard_user SET email = $1 WHERE email = $2", person.email, elsewhere.email)
    tried = [(await sign_in(cells, person.email, "not the password at all"))[0].status for _ in range(10)]
    assert set(tried) == {403}
    async with cells.pool(HOME) as pool:
        await pool.execute("DELETE FROM sign_in_attempt")
    assert (await sign_in(cells, person.email, "not the password at all"))[0].status == 429, "ALA's answer tells more"
    entered, _ = await sign_in(cells, person.email, person.password)
    assert entered.status == 303, entered


async def test_the_link_that_stops_mails_leads_to_the_cell_of_the_merchant(cells: Cells) -> None:
    """Also where a cell was chosen for another page: the link of a mail names its own."""
    merchant, payer = cells.merchants[BELA].account_id, secrets.token_hex(16)
    link = f"/correio/parar/{stop_token(merchant, payer, cells.seal)}"
    for headers in ([], [(b"cookie", b"celula=ala")]):
        assert (await cells.api.ask("GET", link, headers=headers)).status == 200
        assert (
            await cells.api.ask("POST", link, headers=[FORM, *headers], body=b"List-Unsubscribe=One-Click")
        ).status == 200
    async with cells.pool(BELA) as pool:
        assert await pool.fetchval("SELECT count(*) FROM mail_stop WHERE account_id = $1", merchant) == 1


def callback_body(*charges: Any) -> bytes:
    told = [{"endToEndId": f"E{secrets.token_hex(15)}X", "txid": UUID(each).hex} for each in charges]
    return msgspec.json.encode({"pix": told})


async def test_a_callback_leaves_each_hint_in_the_cell_of_its_charge(cells: Cells) -> None:
    charges = {number: (await create(cells, number, mode="production")).json()["charge_id"] for number in cells.urls}
    path = f"/bank/{cells.settings.bank_callback_token}/pix"
    told = await cells.api.ask("POST", path, body=callback_body(*charges.values()))
    assert told.status == 200, told
    for number, charge_id in charges.items():
        async with cells.pool(number) as pool:
            hints = {row["txid"] for row in await pool.fetch("SELECT txid FROM bank_hint")}
        assert hints == {UUID(charge_id).hex}
    with connections_taken() as taken:
        assert (await cells.api.ask("POST", path, body=callback_body(charges[ALA]))).status == 200
    assert list(taken) == [ALA], "while home is away, PIX of other cells are confirmed at once"


async def test_money_that_fits_no_charge_goes_into_suspense_in_exactly_one_cell(cells: Cells, servers: Any) -> None:
    """The reconciler of every cell reads the complete lists of the bank."""
    ids = {}
    for number in (HOME, ALA, BELA):
        with in_cell(number):
            ids[number] = new_id()
    txids = {"none": None, "stranger": "x" * 30, **{f"cell {number}": each.hex for number, each in ids.items()}}
    received = [
        ReceivedPix(
            end_to_end_id=f"E{name.replace(' ', '')}{secrets.token_hex(6)}",
            txid=txid,
            amount_cents=100,
            paid_at=datetime.now(UTC),
        )
        for name, txid in txids.items()
    ]
    numbers = {HOME: number_at_bank("3128557", 1_999_999), ALA: number_at_bank("3128557", 9_900_000_007)}
    found: dict[int, set[str | None]] = {}
    for number in (HOME, ALA, BELA):
        async with cells.pool(number) as pool, worker_context(pool, servers.redis_url, None) as context:
            with in_cell(number):
                for _ in range(2):
                    assert await book_pix(context, BANK, received) == 0
                    unknown = [Unbooked(each, known=False, paid_cents=500, moved_on=TODAY) for each in numbers.values()]
                    await suspend_unknown(context, BANK, unknown)
            found[number] = {row["reference"] for row in await pool.fetch("SELECT reference FROM suspense")}
    assert found == {
        HOME: {None, "x" * 30, ids[HOME].hex, numbers[HOME]},
        ALA: {ids[ALA].hex, numbers[ALA]},
        BELA: {ids[BELA].hex},
    }


async def test_what_a_sandbox_qr_code_leads_to_is_signed_with_a_key_of_the_set_it_names(
    cells: Cells, servers: Any
) -> None:
    for number in (HOME, ALA):
        async with cells.pool(number) as pool, worker_context(pool, servers.redis_url, None) as context:
            with in_cell(number):
                made = await context.banks.sandbox.pix.create_locations(1)
                assert isinstance(made, Done)
                await make_charges(pool, await make_account(pool), made.value, test=True)
                await PixOrderWorker(context, Mode.SANDBOX).drain()
        path = made.value[0].location.partition("/")[2]
        signed = (await cells.api.get(f"/{path}", token=None)).body
        jku = str(jws.extract_compact(signed).headers()["jku"])
        keys = KeySet.import_key_set((await cells.api.get(urlsplit(jku).path, token=None)).json())
        jws.deserialize_compact(signed, keys, algorithms=["ES256"])  # raises when the key is another one


async def test_staff_sign_in_to_the_cell_that_they_name_or_whose_mail_leads_there(cells: Cells, servers: Any) -> None:
    email, password = f"equipe.{secrets.token_hex(3)}@example.com", secrets.token_urlsafe(12)
    async with cells.pool(ALA) as pool, pool.acquire() as conn:
        await add_staff(conn, email, hash_password(password), role="admin", now=datetime.now(UTC))
    async with cells.pool(ALA) as pool, worker_context(pool, servers.redis_url, None) as context:
        with in_cell(ALA):
            context.settings = await enter_own_cell(replace(cells.settings, cell=ALA))
        about = msgspec.json.encode(SecurityMail("session.new_device", datetime.now(UTC), {}))
        letter = await personal_letter(
            context, mail_id=new_id(), account_id=None, kind="security", to=email, about=about, account="Quita"
        )
    assert letter is not None
    assert letter.link is not None
    form = await cells.api.get(letter.link[1].removeprefix(cells.settings.app_url), token=None)
    cookies = b"; ".join(value.split(b";")[0] for name, value in form.headers if name == b"set-cookie")
    assert b"celula=ala" in cookies
    csrf = form.body.decode().partition('name="csrf" value="')[2].partition('"')[0]
    body = urlencode({"csrf": csrf, "email": email, "password": password}).encode()
    entered = await cells.api.ask("POST", "/plataforma/entrar", headers=[FORM, (b"cookie", cookies)], body=body)
    assert entered.status == 303, entered
    session = next(value.split(b";")[0] for name, value in entered.headers if b"plataforma=" in value)
    assert cell_of_hex(session.decode().partition("=")[2]) == ALA
    page = await cells.api.ask("GET", "/plataforma", headers=[(b"cookie", session)])
    assert page.status == 200, page
    over = await cells.api.ask("GET", "/plataforma", headers=[(b"cookie", session[:-4] + b"0000")])
    assert over.header("location") == "/plataforma/entrar?para=/plataforma&celula=ala", (
        "the form leads to the cell again"
    )
    # Home has no person with this address.
    refused = await cells.api.ask(
        "POST",
        "/plataforma/entrar",
        headers=[FORM, (b"cookie", cookies.replace(b"celula=ala", b"celula=home"))],
        body=body,
    )
    assert refused.status == 403


async def test_staff_of_a_cell_who_choose_a_password_are_led_to_the_sign_in_of_their_cell(cells: Cells) -> None:
    email, password = f"equipe.{secrets.token_hex(3)}@example.com", secrets.token_urlsafe(12)
    async with cells.pool(ALA) as pool, pool.acquire() as conn:
        await add_staff(conn, email, None, role="admin", now=datetime.now(UTC))
        with in_cell(ALA):
            link = await make_link(conn, new_id(), email, LinkPurpose(None), now=datetime.now(UTC), seal=cells.seal)
    assert link is not None
    path = f"/plataforma/recuperar/{link.token}"
    form = await cells.api.get(path, token=None)
    cookies = b"; ".join(value.split(b";")[0] for name, value in form.headers if name == b"set-cookie")
    csrf = form.body.decode().partition('name="csrf" value="')[2].partition('"')[0]
    body = urlencode({"csrf": csrf, "name": "Ana", "new": password, "again": password}).encode()
    chosen = await cells.api.ask("POST", path, headers=[FORM, (b"cookie", cookies)], body=body)
    assert (chosen.status, chosen.header("location")) == (303, "/plataforma/entrar?senha=1&celula=ala")


async def test_a_directory_that_cannot_be_read_for_long_does_not_flood_the_log(cells: Cells) -> None:
    router: Any = CellRouter(cells.settings, make_front)
    rounds = 0

    async def fail(_: object) -> None:
        nonlocal rounds
        rounds += 1
        raise ValueError

    with patch("cli.run.cells._POLL_S", 0.0), patch.object(router, "_read_directory", fail), capture_logs() as said:
        watch = asyncio.create_task(router._watch(None))
        while rounds < 20:  # noqa: ASYNC110 - its rounds have no event
            await asyncio.sleep(0)
        watch.cancel()
    assert [each["failures"] for each in said if each["event"] == "directory_not_read"] == [1, 2, 4, 8, 16]


async def test_a_database_of_another_cell_is_not_served(cells: Cells) -> None:
    pool = await open_pool(cells.urls[ALA], name="tests", size=1)
    with pytest.raises(WrongCell, match=r"cell 1.*serves cell 2"):
        await check_cell(pool, BELA)
    await pool.close()


async def test_an_account_of_a_cell_is_not_exported_because_no_import_accepts_it(cells: Cells, tmp_path: Path) -> None:
    account_id, file, now = cells.merchants[ALA].account_id, tmp_path / "account.jsonl", datetime.now(UTC)
    conn = await connect(cells.owner_urls[ALA])
    try:
        with pytest.raises(AccountNotReady, match="of cell 1, which moves whole"):
            await export_account(conn, account_id, file, seal=cells.seal, now=now, progress=lambda _: None)
    finally:
        await conn.close()


async def test_rekey_seals_the_rows_of_every_cell_anew(
    cells: Cells, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    older = f"9:{secrets.token_hex(32)}"
    keys, account_id = read_keys(f"{older},1:{SECRET_KEY}"), cells.merchants[ALA].account_id
    conn = await connect(cells.urls[ALA])
    try:
        await set_endpoint(
            conn, account_id, "https://loja.example.com/", allow_private=False, now=datetime.now(UTC),
            seal=Seal(keys), chance=bytes(32),
        )  # fmt: skip
        monkeypatch.setenv("DATABASE_URL", cells.home.app_url)
        monkeypatch.setenv("SECRET_KEY", f"1:{SECRET_KEY},{older}")
        assert await asyncio.to_thread(main, ["rekey"]) == 0
        key = "SELECT get_byte(secret_sealed, 0) FROM webhook_endpoint WHERE account_id = $1"
        assert await conn.fetchval(key, account_id) == 1
        monkeypatch.setenv("SECRET_KEY", older)
        assert await asyncio.to_thread(main, ["cell", "list"]) == 1
        assert capsys.readouterr().err.endswith("quita: SECRET_KEY does not have the key that this was sealed with\n")
    finally:
        await conn.close()


async def test_a_cell_is_tried_again_by_the_same_application_and_leaves_nothing_behind(
    servers: Any, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that starts while a cell's database is away tries to open the cell for as long as that takes."""
    tried: list[Front] = []

    class Counted(Front):
        def opened(self) -> Any:
            tried.append(self)
            return super().opened()

    def make(settings: Settings) -> Front:
        front = make_front(settings)
        return Counted(front.api, front.web)

    def log_writers() -> int:
        return sum(each.get_coro().__qualname__ == "AccessLog._keep_writing" for each in asyncio.all_tasks())  # type: ignore[union-attr]

    monkeypatch.setattr("cli.run.cells._REOPEN_S", 0.001)
    async with own_database(servers, "wrong") as url:
        owner = await connect(owner_of(servers, url))
        connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename IS NOT NULL"
        await owner.execute("UPDATE this_cell SET number = 9")
        writers_before, connections_before = log_writers(), await owner.fetchval(connections)
        addresses = Addresses(database_url=url, report_url=url)
        served = ServedCell(cells.settings, Cell(7, "wrong", addresses, None, held=False), addresses, make, list)
        try:
            async with asyncio.timeout(30):
                while len(tried) < 5:  # noqa: ASYNC110 - it has no event to wait for
                    await asyncio.sleep(0.01)
                assert len(set(map(id, tried))) == 1, "half a second each, in which no cell gets an answer"
                assert log_writers() == writers_before
                while await owner.fetchval(connections) > connections_before + 1:  # noqa: ASYNC110 - one try is under way
                    await asyncio.sleep(0.01)
                await owner.execute("UPDATE this_cell SET number = 7")
                while not served.open:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        finally:
            await served.close()
            await owner.close()


async def test_a_cell_that_cannot_be_added_is_refused_by_its_field_and_changes_nothing(cells: Cells) -> None:
    for name, dsn, schema, field in (
        ("ala", cells.owner_urls[HOME], "another", "name"),
        ("home", cells.owner_urls[HOME], "another", "name"),
        ("all", cells.owner_urls[HOME], "another", "name"),
        ("Dois", cells.owner_urls[HOME], "another", "name"),
        ("dois", cells.owner_urls[HOME], "Another", "schema"),
        ("dois", cells.owner_urls[HOME], "public", "dsn"),
        ("dois", cells.owner_urls[BELA].partition("?")[0], "cell_bela", "dsn"),
    ):
        with pytest.raises(Refused) as refused:
            await cells.add(name, dsn, schema)
        assert (refused.value.code, list(refused.value.fields or {})) == (Code.VALIDATION_ERROR, [field])
    conn = await connect(cells.urls[HOME])
    assert await conn.fetchval("SELECT count(*) FROM cell") == 3
    await conn.close()


async def test_a_cell_that_was_added_is_served_without_a_restart(servers: Any) -> None:
    async with own_database(servers, "nova", migrated=False) as url, open_cells(servers) as cells:
        added = await cells.add("nova", owner_of(servers, url), "public")
        cells.merchants[added.number] = await cells.merchant(added.number)
        await cells.locations(added.number)
        async with asyncio.timeout(30):
            while cells.router.contexts().get(added.number) is None:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)
        made = await create(cells, added.number)
        assert made.status == 201, made
        assert cell_of(UUID(made.json()["charge_id"])) == added.number


async def test_a_process_serves_a_cell_and_lets_its_people_sign_in_while_home_is_away(servers: Any) -> None:
    """Home is on the server that stops: a load balancer must not remove the whole process."""
    with second_server() as second:
        async with open_cells(servers, home_on=second) as cells:
            assert (await cells.api.get("/readyz", token=None)).status == 200
            token, charge = await token_of(cells, ALA), (await create(cells, ALA)).json()
            second.stop()
            assert (await cells.api.get("/readyz", token=None)).status == 200
            found = await cells.api.get(f"/v1/charges/{charge['charge_id']}", token=token)
            assert found.status == 200, found
            assert (await create(cells, ALA)).status == 201
            led = await cells.api.get("/painel", token=None)
            assert (led.status, led.header("location")) == (303, "/painel/entrar?para=/painel")
            dashboard = cells.merchants[ALA].dashboard
            entered, _ = await sign_in(cells, dashboard.email, dashboard.password)
            assert entered.status == 303, entered
            mistyped, _ = await sign_in(cells, dashboard.email, "not the password at all")
            assert mistyped.status == 403, mistyped
            assert "E-mail ou senha incorretos. Parte das contas está indisponível" in mistyped.body.decode()
            nobody, _ = await sign_in(cells, "nobody@example.com", "not the password at all")
            assert nobody.status == 503, "home, which may know the person, is away"
            cells.router.draining = True
            assert (await cells.api.get("/readyz", token=None)).status == 503
            cells.router.draining = False
            second.restart()


async def test_a_server_that_stops_does_not_affect_merchants_of_other_cells(
    cells: Cells, second: EmbeddedPostgres
) -> None:
    before = (await create(cells, BELA)).json()
    waiting = await token_of(cells, BELA)
    second.stop()
    for _ in range(3):
        for number in (HOME, ALA):
            assert (await create(cells, number)).status == 201
        away = await cells.api.get(f"/v1/charges/{before['charge_id']}", token=waiting)
        assert (away.status, envelope(away)["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert (await cells.api.get(f"/pagar/{before['public_id']}", token=None)).status == 503
    dashboard = cells.merchants[BELA].dashboard
    entered, _ = await sign_in(cells, dashboard.email, dashboard.password)
    assert "está indisponível no momento" in entered.body.decode(), "the password that is right must not be only wrong"
    path = f"/bank/{cells.settings.bank_callback_token}/pix"
    told = (await create(cells, ALA, mode="production")).json()["charge_id"]
    with in_cell(BELA):
        lost = str(new_id())
    refused = await cells.api.ask("POST", path, body=callback_body(told, lost))
    assert refused.status == 503, "the bank must repeat the callback, which the unreachable cell did not receive"
    async with cells.pool(ALA) as pool:
        heard = await pool.fetch("SELECT txid FROM bank_hint")
        assert UUID(told).hex in {row["txid"] for row in heard}
    second.restart()
    async with asyncio.timeout(30):
        while (await cells.api.get(f"/v1/charges/{before['charge_id']}", token=waiting)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


_DISTRIBUTES = """
CREATE TABLE public.distributed (name text, tables bigint);
CREATE FUNCTION public.citus_schema_distribute(schema regnamespace) RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.distributed SELECT schema::text, count(*) FROM pg_class c WHERE c.relnamespace = schema
$$
"""


async def test_on_citus_a_schema_is_distributed_before_its_first_table(servers: Any) -> None:
    """Tables made in a distributed schema lie on its node. A function with the name of Citus' plays its part here."""
    with second_server() as second:
        conn = await connect(second.dsn)
        await conn.execute(_DISTRIBUTES)
        async with open_cells(servers, second) as opened:
            made = await create(opened, BELA)
            assert made.status == 201, made
        rows = await conn.fetch("SELECT name, tables FROM public.distributed ORDER BY name")
        assert [tuple(row) for row in rows] == [("cell_bela", 0), ("cell_cora", 0)]
        await conn.close()
