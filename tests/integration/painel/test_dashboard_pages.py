"""The dashboard's pages about charges and money: they show the account's own rows, and no other account's."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from commands.money.reversals import BankReturn, book_reversals
from domain.boleto.terms import Fine, PaymentTerms
from domain.brazilian import brl, signed_brl
from domain.instants import SAO_PAULO
from readmodels.charges.charge import ChargeDoc
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.support.dashboard import Books, Person, Seen, a_merchant, owner_in_browser, settings_with
from tests.support.pages import serving
from tests.support.wallet import insert_ledger_entry
from web.painel.lists import PAGE
from web.painel.table import TABLE

SETTINGS = settings_with(RATE_FILES_PER_MIN="100000")
SEAL = Seal(SETTINGS.secret_key)
DAY = timedelta(days=1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


class Environment(NamedTuple):
    merchant: MerchantCreated
    books: Books
    owner: Person


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, address: str) -> AsyncIterator[Environment]:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as owner:
        yield Environment(merchant, Books(pool, merchant.account_id, SEAL), owner)


def references(seen: Seen) -> list[str]:
    """The first column of the page's table."""
    return re.findall(r'class="row-link" href="[^"]*">([^<]*)<', seen.html)


def amounts(text: str) -> list[str]:
    return re.findall(r"−?R\$\xa0[\d.]+,\d\d", text)


def answers_like_unknown(seen: Seen, unknown: Seen) -> bool:
    return (seen.status, seen.html) == (404, unknown.html) == (unknown.status, seen.html)


# The first page


async def test_the_first_page_shows_the_balance_money_received_and_open_and_expired_charges(env: Environment) -> None:
    now = datetime.now(UTC)
    books = env.books
    for amount, ago in ((1_00, 40), (20_00, 20), (300_00, 3), (4_000_00, 0)):
        charge = await books.charge(amount, at=now - DAY * ago, lifetime=DAY * 60)
        await books.paid(charge, at=now - DAY * ago)
    await books.charge(50_000_00)
    await books.charge(8_00, at=now - DAY * 45, lifetime=timedelta(hours=1))
    await books.charge(7_00, at=now - DAY * 2, lifetime=timedelta(hours=1))
    # Test credits appear in no figure (spec, Sandbox-only errors).
    await books.paid(await books.charge(999_999_00, test=True))
    page = await env.owner.opened("/painel")
    assert f"Saldo {brl(4_321_00)}" in page.text
    assert f"Recebido hoje {brl(4_000_00)}" in page.text
    assert f"Recebido em 7 dias {brl(4_300_00)}" in page.text
    assert f"Recebido em 30 dias {brl(4_320_00)}" in page.text
    assert f"Em aberto 1 {brl(50_000_00)}" in page.text
    assert f"Vencidas sem pagamento 1 {brl(7_00)}" in page.text
    (listed,) = re.findall(r'href="([^"]+)">ver<span class="unseen"> cobranças vencidas', page.html)
    assert f"1 cobrança, {brl(7_00)}" in (await env.owner.opened(unescape(listed))).text, (
        "the linked list has as many charges as the figure"
    )
    assert "999.999" not in page.html
    assert page.html.count('<rect class="plot-bar') + len(re.findall(r"<rect [^>]*plot-bar", page.html)) == 3
    day = now.astimezone(SAO_PAULO)
    assert f"{day.day:02}/{day.month:02}/{day.year} 1 {brl(4_000_00)}" in page.text


async def test_the_amount_received_today_leaves_out_withdrawals_and_refunds(env: Environment, pool: Pool) -> None:
    """The day's sum is derived from the running balance, which withdrawals and refunds move as well."""
    await env.books.paid(await env.books.charge(100_00))
    account_id = env.merchant.account_id
    for number, (kind, amount, after) in enumerate(
        (("withdrawal", -60_00, 40_00), ("refund", -10_00, 30_00), ("payment", 5_00, 35_00)), 2
    ):
        await pool.execute(
            "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,"
            " created_at) VALUES ($1, false, $2, $3, $4, $5, $6, now())",
            account_id, number, uuid4(), kind, amount, after,
        )  # fmt: skip
    page = await env.owner.opened("/painel")
    # The journal lacks these entries: a test that adds up every ledger must not find them.
    await pool.execute("DELETE FROM read_ledger WHERE account_id = $1 AND sequence > 1", account_id)
    assert f"Recebido hoje {brl(105_00)}" in page.text
    assert f"Saldo {brl(35_00)}" in page.text


async def test_the_first_page_reports_anomalies_and_a_pending_registration(
    env: Environment, pool: Pool, address: str
) -> None:
    charge = await env.books.charge(10_00, external_id="pedido-7")
    await env.books.paid(charge, 10_00, 10_00)
    page = await env.owner.opened("/painel")
    assert "1 pagamento com divergência" in page.text
    assert "Pago em duplicidade" in page.text
    waiting = await a_merchant(pool, kyc="pending")
    async with owner_in_browser(address, waiting) as owner:
        assert "Cadastro em análise" in (await owner.opened("/painel")).text
    assert "Cadastro em análise" not in page.text


# Lists


async def test_the_list_of_charges_is_paged_to_its_end_and_back_without_gaps_or_repeats(env: Environment) -> None:
    now = datetime.now(UTC)
    made = [f"pedido-{number:03}" for number in range(2 * PAGE + 3)]
    for number, reference in enumerate(made):
        # Three charges share each instant: the order is by instant and id.
        await env.books.charge(at=now - timedelta(hours=1) + timedelta(seconds=number // 3), external_id=reference)
    path = "/painel/cobrancas"
    walked = [await env.owner.opened(f"{path}?status=pending")]
    while (link := re.search(r'rel="next" href="([^"]+)"', walked[-1].html)) is not None:
        walked.append(await env.owner.opened(path + link[1].replace("&amp;", "&")))
    assert [len(references(page)) for page in walked] == [PAGE, PAGE, 3]
    seen = [reference for page in walked for reference in references(page)]
    assert sorted(seen) == made
    back = [walked[-1]]
    while (link := re.search(r'rel="prev" href="([^"]+)"', back[-1].html)) is not None:
        back.append(await env.owner.opened(path + link[1].replace("&amp;", "&")))
    assert [references(page) for page in back] == [references(page) for page in reversed(walked)]


async def test_charges_without_a_reference_are_told_apart_by_the_end_of_their_id(env: Environment) -> None:
    for _ in range(3):
        doc = await env.books.charge()
        await env.books.paid(doc)
    for path in ("/painel/cobrancas", "/painel/extrato"):
        page = await env.owner.opened(path)
        assert len(set(re.findall(r">(…[0-9a-f]{8})<", page.html))) == 3, path


async def test_charges_are_found_by_the_filters_of_the_api(env: Environment) -> None:
    payer = {"name": "João d'Ávila", "document": "52998224725"}
    found = await env.books.charge(external_id="achada", payer=payer)
    await env.books.charge(external_id="outra")
    await env.books.paid(await env.books.charge(external_id="paga"))
    day = datetime.now(UTC).astimezone(SAO_PAULO).date().isoformat()
    for query in (
        "external_id=achada",
        "payer_document=529.982.247-25",
        f"txid={found.txid}",
        f"external_id=achada&status=pending&payment_method=pix&created_from={day}&created_to={day}&nosso_numero=",
    ):
        assert references(await env.owner.opened(f"/painel/cobrancas?{query}")) == ["achada"], query
    assert references(await env.owner.opened("/painel/cobrancas?status=paid")) == ["paga"]
    empty = await env.owner.opened("/painel/cobrancas?status=failed")
    assert "Nenhuma cobrança com estes filtros." in empty.text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("status=nada", "Escolha uma das opções."),
        ("created_from=2026-02-30", "Não é uma data."),
        ("created_from=2026-03-02&created_to=2026-03-01", "Termina antes de começar."),
        ("external_id=" + "x" * 256, "Use até 255 caracteres."),
        ("external_id=%00", "Há caracteres que não podem ser usados."),
    ],
)
async def test_an_invalid_filter_is_explained_and_shows_no_rows(env: Environment, query: str, said: str) -> None:
    await env.books.charge(external_id="uma")
    seen = await env.owner.get(f"/painel/cobrancas?{query}")
    assert seen.status == 400
    assert said in seen.text
    assert not references(seen)
    assert 'aria-invalid="true"' in seen.html


async def test_an_unknown_filter_is_refused_and_a_foreign_cursor_leads_to_the_first_page(
    env: Environment, pool: Pool, address: str
) -> None:
    assert (await env.owner.get("/painel/cobrancas?nada=1")).status == 400
    assert (await env.owner.get("/painel/cobrancas?external_id=%ff")).status == 400
    assert (await env.owner.get("/painel/cobrancas?depois=AAAA")).where == "/painel/cobrancas"
    for number in range(PAGE + 1):
        await env.books.charge(external_id=f"{number}")
    page = await env.owner.opened("/painel/cobrancas")
    link = re.search(r'rel="next" href="([^"]+)"', page.html)
    assert link
    async with owner_in_browser(address, await a_merchant(pool)) as stranger:
        assert (await stranger.get(f"/painel/cobrancas{link[1]}")).status == 303
    assert (await env.owner.get(f"/painel/teste/cobrancas{link[1]}")).status == 303


async def test_the_statement_shows_the_balance_after_each_entry_and_test_mode_has_no_statement(
    env: Environment,
) -> None:
    for amount in (10_00, 25_00, 7_00):
        await env.books.paid(await env.books.charge(amount, external_id=f"r{amount}"))
    await env.books.paid(await env.books.charge(5_000_00, test=True))
    page = await env.owner.opened("/painel/extrato")
    table = page.html[page.html.index("<tbody>") :]
    assert amounts(re.sub(r"\+", "", table)) == [brl(each) for each in (7_00, 42_00, 25_00, 35_00, 10_00, 10_00)]
    assert f"Saldo {brl(42_00)}" in page.text
    assert "5.000" not in page.html
    assert (await env.owner.get("/painel/teste/extrato")).status == 404
    assert (await env.owner.opened("/painel/extrato?type=payment")).html.count("<tr>") == 4
    assert "Nenhum lançamento com estes filtros." in (await env.owner.opened("/painel/extrato?type=refund")).text
    # The bank takes back a payment whose money has left the wallet.
    account_id = env.merchant.account_id
    (payment,) = await env.books.pool.fetch(
        "SELECT source, charge_id, amount_cents FROM payment WHERE account_id = $1 ORDER BY amount_cents LIMIT 1",
        account_id,
    )
    source, charge_id, cents = payment
    returned = BankReturn(
        position=0, charge_id=charge_id, boleto_number=None, end_to_end_id=source, refund_id=None, bank_id="D1",
        return_id=None, amount_cents=cents,
    )  # fmt: skip
    async with transaction(env.books.pool) as conn:
        await insert_ledger_entry(conn, account_id, 4, "withdrawal", -40_00, 2_00, datetime.now(UTC))
        await conn.execute(
            "UPDATE account_clock SET balance_cents = 200, entry_sequence = 4 WHERE account_id = $1 AND NOT test",
            account_id,
        )
        assert await book_reversals(conn, [returned], bank="001", now=datetime.now(UTC)) == 1
    page = await env.owner.opened("/painel/extrato")
    table = page.html[page.html.index("<tbody>") :]
    assert amounts(table)[:2] == [signed_brl(-7_00), signed_brl(-5_00)]
    for each in (page, await env.owner.opened("/painel")):
        assert f"Saldo {signed_brl(-5_00)}" in each.text


async def test_the_list_of_payments_shows_who_paid_and_which_are_anomalies(env: Environment) -> None:
    await env.books.paid(await env.books.charge(10_00, external_id="dupla"), 10_00, 10_00)
    await env.books.paid(await env.books.charge(12_00, external_id="certa"))
    page = await env.owner.opened("/painel/pagamentos")
    assert page.text.count("Fulana de Tal") == 3
    assert "12345678909" not in page.html
    odd = await env.owner.opened("/painel/pagamentos?anomaly=duplicate")
    assert references(odd) == ["Fulana de Tal"]
    assert "Pago em duplicidade" in odd.text
    assert "TESTE" not in page.html.replace("Ambiente de teste", "")


async def test_a_payment_without_payer_name_is_listed_by_the_charges_payer_reference_or_link(env: Environment) -> None:
    """The receipt of a boleto paid by its line, for example, names nobody."""
    moment = datetime.now(UTC) - timedelta(hours=1)
    known: dict[str, Any] = {"payer": {"name": "Ana <Lima>"}, "external_id": "dela"}
    charges = [
        await env.books.charge(10_00, **known),
        await env.books.charge(10_00, payer={"email": "sem@nome.example"}, external_id="pedido 7"),
        await env.books.charge(10_00),
    ]
    for number, charge in enumerate(charges):
        paid_at = moment - timedelta(minutes=number)
        await env.books.paid(charge, 10_00, 10_00, at=paid_at, payer_name=None, payer_document=None)
    named = await env.books.charge(10_00, **known)
    await env.books.paid(named, at=moment - timedelta(minutes=9))
    expected = [each for each in ("Ana &lt;Lima&gt;", "pedido 7", "Ver cobrança") for _ in range(2)]
    assert references(await env.owner.opened("/painel/pagamentos")) == [*expected, "Fulana de Tal"]
    odd = (await env.owner.opened("/painel")).html.split("Pagamentos com divergência")[1].split("</table>")[0]
    assert sorted(re.findall(r'class="row-link" href="[^"]*">([^<]*)<', odd)) == sorted(expected[::2])


# One charge


async def test_the_page_of_a_charge_shows_its_timeline_its_masked_payer_and_the_payment_link(env: Environment) -> None:
    payer = {"name": "João d'Ávila", "document": "52998224725", "email": "joao@example.com"}
    charge = await env.books.charge(12_34, external_id="pedido <1>", description="Bolo & café", payer=payer)
    page = await env.owner.opened(f"/painel/cobrancas/{charge.charge_id}")
    assert "pedido <1>" in page.text
    assert "pedido <1>" not in page.html
    assert "João d'Ávila" in page.text
    assert "***.982.247-**" in page.text
    assert "52998224725" not in page.html
    assert f"/pagar/{charge.public_id}" in page.html
    assert (await env.owner.get(f"/pagar/{charge.public_id}")).status == 200
    await env.books.paid(charge)
    page = await env.owner.opened(f"/painel/cobrancas/{charge.charge_id}")
    assert "Paga" in page.text
    life = page.text[page.text.index("Linha do tempo") :]
    assert re.search(r"Cobrança criada .* Pagamento recebido .* pelo banco", life)
    assert "Cancelar cobrança" not in page.text


async def test_a_pix_charge_is_cancelled_once_and_its_timeline_names_who_cancelled_it(env: Environment) -> None:
    charge = await env.books.charge()
    path = f"/painel/cobrancas/{charge.charge_id}"
    form = await env.owner.opened(path)
    done = await env.owner.post(f"{path}/cancelar", form=form, reason="paid_externally", sure="yes")
    assert (done.status, done.where) == (303, f"{path}?feito=cancelada")
    page = await env.owner.opened(done.where)
    assert "Cobrança cancelada." in page.text
    assert "paga por outro meio" in page.text
    assert f"por {env.owner.email}, no painel" in page.text
    assert (await env.owner.post(f"{path}/cancelar", form=form, reason="cancelled", sure="yes")).status == 409
    late = await env.owner.post(f"{path}/cancelar", on=path, reason="cancelled", sure="yes")
    assert late.status == 409
    assert "não está mais em aberto" in late.text


async def test_a_charge_past_its_expiry_is_shown_as_expired(env: Environment) -> None:
    charge = await env.books.charge(at=datetime.now(UTC) - DAY, lifetime=timedelta(hours=1))
    page = await env.owner.opened(f"/painel/cobrancas/{charge.charge_id}")
    assert "Vencida" in page.text
    assert "Cancelar cobrança" not in page.text


# Isolation of modes and accounts


async def test_test_pages_are_marked_and_show_test_charges_only(env: Environment) -> None:
    live = await env.books.charge(external_id="de-verdade")
    trial = await env.books.charge(external_id="de-teste", test=True)
    page = await env.owner.opened("/painel/teste/cobrancas")
    assert references(page) == ["de-teste"]
    assert 'class="test-band"' in page.html
    assert "TESTE Banco simulado" in page.text
    page = await env.owner.opened("/painel/cobrancas")
    assert references(page) == ["de-verdade"]
    assert "test-band" not in page.html
    assert 'class="test-band"' in (await env.owner.opened(f"/painel/teste/cobrancas/{trial.charge_id}")).html
    unknown = await env.owner.get(f"/painel/cobrancas/{uuid4()}")
    assert answers_like_unknown(await env.owner.get(f"/painel/cobrancas/{trial.charge_id}"), unknown)
    assert answers_like_unknown(await env.owner.get(f"/painel/teste/cobrancas/{live.charge_id}"), unknown)


async def test_a_test_charge_can_be_paid_in_the_dashboard_and_a_production_charge_cannot(env: Environment) -> None:
    trial, live = await env.books.charge(test=True), await env.books.charge()
    path = f"/painel/teste/cobrancas/{trial.charge_id}"
    done = await env.owner.post(f"{path}/pagar", on=path)
    assert done.status == 303
    assert "PAGADOR DE TESTE" in (await env.owner.opened(path)).text
    assert (await env.owner.post(f"/painel/cobrancas/{live.charge_id}/pagar")).status == 404
    assert (await env.owner.post(f"/painel/teste/cobrancas/{live.charge_id}/pagar")).status == 404
    assert "Em aberto" in (await env.owner.opened(f"/painel/cobrancas/{live.charge_id}")).text


async def test_an_unknown_path_links_back_to_its_section_and_gives_a_payer_no_link(env: Environment) -> None:
    for root in ("/painel", "/plataforma", "/docs"):
        lost = await env.owner.get(f"{root}/nada/disso")
        assert (lost.status, f'<a href="{root}">' in lost.html) == (404, True), root
    # A payer knows only the link of a charge: no other page is meant for payers.
    lost = await env.owner.get("/pagar/nada")
    assert (lost.status, "<a " in lost.html) == (404, False)


async def test_everything_of_another_account_answers_like_an_unknown_path(
    env: Environment, pool: Pool, address: str
) -> None:
    theirs = await a_merchant(pool, "Padaria São João")
    books = Books(pool, theirs.account_id, SEAL)
    charges: list[ChargeDoc] = [await books.charge(external_id="pedido-deles", test=test) for test in (False, True)]
    await books.paid(charges[0])
    ids = {
        "charge_id": [each.charge_id for each in charges],
        "client_id": [theirs.test.client_id, theirs.production.client_id],
        "delivery_id": [str(uuid4())],
        "schedule_id": [str(uuid4())],
        "request_id": [f"req_{uuid4().hex}"],
        "withdrawal_id": [str(uuid4())],
        "payment_id": [str(uuid4())],
        "cep": ["01310100"],
    }
    form = await env.owner.opened("/painel/acesso")
    unknown = await env.owner.get("/painel/nada")
    for page in TABLE:
        name = re.search(r"\{([a-z_]+):str\}", page.whole_path)
        path = page.whole_path
        if name is None:
            if page.method == "GET":
                seen = await env.owner.opened(path)
                assert "pedido-deles" not in seen.html, path
                assert theirs.name not in seen.html, path
                assert str(theirs.account_id) not in seen.html, path
            continue
        odd = ["x", "%00", "A" * 36, str(uuid4()).upper(), f"{{{uuid4()}}}"]
        for given in (*ids[name[1]], *odd):
            target = path.replace(name[0], given)
            if page.method == "GET":
                seen = await env.owner.get(target)
            else:
                seen = await env.owner.post(target, form=form, reason="cancelled", overlap="1h", sure="yes")
            assert answers_like_unknown(seen, unknown), (page.method, target, seen.status)
    async with owner_in_browser(address, theirs) as them:
        assert "Paga" in (await them.opened(f"/painel/cobrancas/{charges[0].charge_id}")).text
        assert "Em aberto" in (await them.opened(f"/painel/teste/cobrancas/{charges[1].charge_id}")).text


ODD = (
    "",
    "\u202e",
    "💸" * 50,
    "\ufeff",
    "{{7*7}}",
    "'; DROP TABLE audit; --",
    "<b>",
    "9" * 40,
    "-1",
    "\x7f",
    "ﬀ",
    "٣",
    "x" * 4096,
)
ODD_URLS = (
    "http://[",
    "https://[::1",
    "https://[::1]@",
    "https://xn--",
    "https://example.com:99999",
    "https://ex\u0000ample.com",
    "https://💸",
)
ODD_QUERIES = (
    "%00", "a", "status=%ff", "depois=%ed%a0%80", "antes=" + "A" * 5000, "order=%F0%9F%92%B8", "feito=<b>",
    "feito=cancelada&feito=x", "created_from=0001-01-01&created_to=9999-12-31", "due_from=0000-00-00",
    "paid_from=9999-12-31", "type=payment&type=refund", "external_id=" + "%F0%9F%92%B8" * 200, "&" * 200,
    "ate=0001-01-10", "de=9999-12-31&ate=9999-12-31&por=month",
)  # fmt: skip


FIELDS = (
    "name", "url", "scope", "kind", "overlap", "reason", "from_sequence", "to_sequence",
    "email", "role", "password", "new", "again", "code", "secret",
)  # fmt: skip


async def test_no_input_breaks_a_page(env: Environment) -> None:
    charge = await env.books.charge(test=True)
    form = await env.owner.opened("/painel/acesso")
    token = form.hidden()["csrf"]
    known = {
        "charge_id": charge.charge_id,
        "client_id": env.merchant.production.client_id,
        "delivery_id": str(uuid4()),
        "schedule_id": str(uuid4()),
        "request_id": f"req_{uuid4().hex}",
        "withdrawal_id": str(uuid4()),
        "payment_id": str(uuid4()),
        "cep": "01310100",
    }
    # A page and its twin in the other mode are one function: the twin of test mode stands for both.
    for page in {(page.method, page.handle): page for page in TABLE}.values():
        if page.whole_path.startswith("/painel/sair"):
            continue
        path = re.sub(r"\{([a-z_]+):str\}", lambda found: known[found[1]], page.whole_path)
        if page.method == "GET":
            for query in ODD_QUERIES:
                seen = await env.owner.get(f"{path}?{query}")
                assert seen.status in (200, 303, 400, 404), (path, query)
                assert "<b>" not in seen.html.replace("</b>", "")
            continue
        for odd in (*ODD, *(ODD_URLS if "/webhooks" in path else ())):
            fields = dict.fromkeys(FIELDS, odd)
            for once in (str(uuid4()), odd) if odd in ODD[:3] else (str(uuid4()),):
                seen = await env.owner.ask("POST", path, data={"csrf": token, "once": once, **fields})
                assert seen.status in (200, 303, 400, 404, 409), (path, odd, seen.status, seen.text[:200])


async def test_sentences_of_a_notice_are_separated_by_a_space(env: Environment) -> None:
    await env.books.pool.execute(
        "UPDATE account SET kyc = 'pending', address = NULL WHERE account_id = $1", env.merchant.account_id
    )
    page = await env.owner.opened("/painel")
    assert re.search(r'No teste, todo o resto funciona\. <a href="/painel/empresa">Ver o cadastro', page.html)


async def test_the_request_log_says_what_is_stored_of_a_request_in_each_mode(env: Environment) -> None:
    assert "O corpo das requisições não é guardado." in (await env.owner.opened("/painel/requisicoes")).text
    test = (await env.owner.opened("/painel/teste/requisicoes")).text
    assert "ficam guardados o corpo e a resposta" in test
    assert "não é guardado" not in test


@pytest.mark.parametrize("test", [False, True])
async def test_a_payable_charge_past_its_due_date_is_marked_as_overdue(env: Environment, test: bool) -> None:
    today = datetime.now(UTC).astimezone(SAO_PAULO).date()
    dues = {"ontem": today - DAY, "hoje": today}
    terms = PaymentTerms(fine=Fine(percent_bps=200), payable_days=30)
    docs = {
        name: await env.books.charge(
            100_00, test=test, lifetime=30 * DAY, external_id=name, terms=terms,
            due_date=due.isoformat(), effective_due_date=due.isoformat(),
        )
        for name, due in dues.items()
    }  # fmt: skip
    root = "/painel/teste" if test else "/painel"
    chip = '<span class="chip chip-expired">Vencida</span>'
    cell = f"{chip}</td>"  # on narrow screens the chip stands inside the first cell
    assert (await env.owner.opened(f"{root}/cobrancas")).html.count(cell) == 1
    pages = {name: await env.owner.opened(f"{root}/cobrancas/{doc.charge_id}") for name, doc in docs.items()}
    assert {name: chip in page.html for name, page in pages.items()} == {"ontem": True, "hoje": False}
    assert "A pagar hoje" in pages["hoje"].text
    if test:  # with the test clock a day ahead the other charge is overdue too
        clock = f"{root}/relogio"
        assert (await env.owner.post(clock, on=clock, days="1", hours="0", minutes="")).status == 303
        assert (await env.owner.opened(f"{root}/cobrancas")).html.count(cell) == 2


async def test_a_cancellation_shows_its_reason_and_mailing_a_charge_without_e_mail_requires_one(
    env: Environment,
) -> None:
    doc = await env.books.charge()
    page = f"/painel/cobrancas/{doc.charge_id}"
    shown = await env.owner.opened(page)
    assert "o endereço que a cobrança tem" not in shown.text
    assert re.search(r'<input id="i-to" [^>]* required', shown.html)
    assert "Pedido da loja" in shown.text
    known = await env.books.charge(payer={"name": "Ana", "email": "ana@example.com"})
    assert "o endereço que a cobrança tem" in (await env.owner.opened(f"/painel/cobrancas/{known.charge_id}")).text
    assert (await env.owner.post(f"{page}/cancelar", form=shown, reason="cancelled", sure="yes")).status == 303
    assert "(pedido da loja)" in (await env.owner.opened(page)).text
