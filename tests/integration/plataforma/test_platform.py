"""The staff's section: separate from the merchants' dashboard; its decisions are audited and take effect at once."""

import asyncio
import csv
import io
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import openpyxl
import pytest
import pytest_asyncio

from commands.bank_orders.kinds import OrderKind, OrderLane
from commands.merchants.integrators import create_integrator, set_integrator
from commands.merchants.merchants import create_merchant
from commands.people.staff import add_staff
from commands.webhooks.endpoint import set_endpoint
from domain.brazilian import brl, span
from domain.instants import SAO_PAULO
from readmodels.dashboard.platform import COUNT_MAX, bank_state, find_merchant, kyc_counts, lanes_in_trouble, queues
from readmodels.reports.compare import whole
from readmodels.reports.integrators import find_integrator
from readmodels.reports.report import ask
from readmodels.reports.reports import REPORTS
from runtime.ids import new_id
from runtime.postgres import Pool, open_pool, session, transaction
from runtime.seal import Seal
from tests.support.dashboard import (
    Books,
    Person,
    Seen,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
    staff_in_browser,
)
from tests.support.in_process import Api
from tests.support.pages import serving
from tests.support.partners import book_past_payments
from tests.support.wallet import credit_wallet
from web.painel.table import TABLE as PAINEL_TABLE
from web.plataforma.reports import pages as reports
from web.plataforma.table import TABLE

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
WAITS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%pg_advisory_xact_lock(7203415510)%'
"""
NOBODY = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def staff(pool: Pool, address: str) -> AsyncIterator[Person]:
    async with staff_in_browser(pool, address) as person:
        yield person


def _path_with_ids(path: str) -> str:
    return re.sub(r"\{[^}]*\}", NOBODY, path)


# Separation of the two sections


async def test_staff_pages_are_closed_to_merchants_and_dashboard_pages_to_staff(
    address: str, pool: Pool, staff: Person
) -> None:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as owner:
        # Also with the person's own session under the name of the other section's cookie.
        for person, table, root in ((owner, TABLE, "/plataforma"), (staff, PAINEL_TABLE, "/painel")):
            moved = {"Cookie": f"{root[1:]}={person.cookie()}"}
            for page in table:
                for headers in (None, moved):
                    seen = await person.ask(page.method, _path_with_ids(page.whole_path), headers=headers)
                    assert (seen.status, seen.where[: len(root) + 7]) == (303, f"{root}/entrar"), page.whole_path
    for page in TABLE:
        if page.method == "GET":
            wanted = 404 if "{" in page.whole_path else 200
            assert (await staff.get(_path_with_ids(page.whole_path))).status == wanted, page.whole_path
    assert (await staff.get("/plataforma/nada")).status == 404


async def test_a_password_of_one_section_does_not_sign_in_to_the_other(address: str, pool: Pool, staff: Person) -> None:
    merchant = await a_merchant(pool)
    crossed = [
        Person(address, staff.email, staff.password),
        Person(address, merchant.dashboard.email, merchant.dashboard.password, "/plataforma"),
    ]
    for person in crossed:
        try:
            refused = await person.sign_in()
            assert (refused.status, "E-mail ou senha incorretos." in refused.text) == (403, True)
        finally:
            await person.http.close()


async def test_an_e_mail_cannot_belong_to_a_merchant_and_to_the_staff(address: str, pool: Pool, staff: Person) -> None:
    merchant = await a_merchant(pool)
    async with pool.acquire() as conn:
        with pytest.raises(Exception, match="VALIDATION_ERROR"):
            await add_staff(conn, merchant.dashboard.email, "x", role="admin", now=datetime.now(UTC))
    async with owner_in_browser(address, merchant) as owner:
        # The answer is the one for any other e-mail: the owner does not learn who works for the platform.
        asked = await owner.post("/painel/pessoas", on="/painel/pessoas", name="Ana", email=staff.email, role="owner")
        assert asked.status == 303
        for path in ("perfil", "acesso", "remover"):
            gone = await owner.post(
                f"/painel/pessoas/{path}", on="/painel/pessoas", email=staff.email, role="support", sure="yes"
            )
            assert gone.status == 404
    assert (await staff.get("/plataforma")).status == 200


async def test_with_a_single_cell_no_choice_of_cell_is_offered(staff: Person) -> None:
    page = await staff.opened("/plataforma")
    assert "cell-choice" not in page.html
    assert "todas as contas desta" not in page.text
    assert "Não há outra célula" in (await staff.opened("/plataforma/celula")).text
    assert (await staff.post("/plataforma/celula", celula="home")).status == 404
    report = await staff.opened("/plataforma/relatorios/receipts")
    assert "élulas" not in report.text


async def test_the_webhook_report_names_the_state_as_the_page_of_the_merchant_does(pool: Pool, staff: Person) -> None:
    account_id = (await a_merchant(pool)).account_id
    endpoint_id = new_id()
    await pool.execute(
        "WITH e AS (INSERT INTO webhook_endpoint SELECT $1, $2, 'https://example.com/', '', '{}', now()"
        " RETURNING endpoint_id)"
        " INSERT INTO webhook_lane (endpoint_id, test) SELECT endpoint_id, t FROM e, unnest(ARRAY[true, false]) t",
        endpoint_id, account_id,
    )  # fmt: skip
    for failures, told in ((0, "Sem entregas ainda"), (1, "Funcionando, com falhas recentes")):
        await pool.execute(
            "UPDATE webhook_lane SET consecutive_failures = $2 WHERE endpoint_id = $1 AND NOT test",
            endpoint_id, failures,
        )  # fmt: skip
        for path in (f"/plataforma/lojas/{account_id}", f"/plataforma/relatorios/webhook_lanes?conta={account_id}"):
            assert told in (await staff.opened(path)).text, path
    await pool.execute("DELETE FROM webhook_endpoint WHERE endpoint_id = $1", endpoint_id)


async def test_where_a_second_factor_is_required_no_page_opens_without_it(pool: Pool) -> None:
    async with (
        serving(pool, lambda: datetime.now(UTC), settings_with()) as strict,
        staff_in_browser(pool, strict) as person,
    ):
        for page in TABLE:
            if page.method == "GET" and not page.early:
                seen = await person.get(_path_with_ids(page.whole_path))
                assert (seen.status, seen.where) == (303, "/plataforma/acesso/codigo"), page.whole_path
        assert "Falta um passo" in (await person.opened("/plataforma/acesso/codigo")).text
        suspended = await person.post("/plataforma/pix/suspender", reason="tentativa")
        assert suspended.where == "/plataforma/acesso/codigo"
        assert await pool.fetchval("SELECT count(*) FROM pix_suspension") == 0
        assert (await person.post("/plataforma/sair")).where == "/plataforma/entrar?saiu=1"


# Merchants


async def test_merchants_are_found_by_id_document_beginning_of_the_name_or_a_persons_e_mail(
    pool: Pool, address: str, staff: Person
) -> None:
    merchant = await a_merchant(pool, "Ótica Ímpar 100% & Filhos")
    document = await pool.fetchval("SELECT document FROM account WHERE account_id = $1", merchant.account_id)
    shown = f"{document[:2]}.{document[2:5]}.{document[5:8]}/{document[8:12]}-{document[12:]}"
    link = f"/plataforma/lojas/{merchant.account_id}"
    async with colleague_in_browser(pool, address, merchant, "support") as colleague:
        named = ("ótica ímpar 100%", "ótica ímpar 100% & filhos", "OTICA IMPAR")
        for text in (str(merchant.account_id), shown, document, *named, colleague.email.upper()):
            seen = await staff.ask("GET", "/plataforma/lojas", params={"busca": text})
            assert link in seen.html, text
    for text in ("ótica par", "%", "_", "tica", "nobody@example.com", NOBODY, "' OR 1=1 --"):
        seen = await staff.ask("GET", "/plataforma/lojas", params={"busca": text})
        assert (seen.status, link in seen.html) == (200, False), text
    assert (await staff.get("/plataforma/lojas?situacao=nenhuma")).status == 400
    states = ["rejected", "pending", "approved"]
    async with session(pool) as conn:
        before = await kyc_counts(conn, states)
        pending = await a_merchant(pool, "Espera", kyc="pending")
        counted = await kyc_counts(conn, states)
    assert [each.kyc for each in counted] == states
    assert [each.merchants - of.merchants for each, of in zip(counted, before, strict=True)] == [0, 1, 0]
    only = await staff.opened("/plataforma/lojas?situacao=pending")
    assert f"/plataforma/lojas/{pending.account_id}" in only.html
    assert link not in only.html
    page = (await staff.opened(link)).text
    assert merchant.dashboard.email in page
    assert shown in page
    # The balance is that of the merchant's production alone, as is the webhook address its own.
    await credit_wallet(pool, merchant.account_id, 5_00)
    other = await a_merchant(pool)
    await credit_wallet(pool, other.account_id, 7_00)
    books = Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))
    await books.paid(await books.charge(9_00, test=True))
    async with transaction(pool) as conn:
        await set_endpoint(
            conn, other.account_id, "https://outra.example/w?key=s3cret", allow_private=True, now=datetime.now(UTC),
            seal=Seal(SETTINGS.secret_key), chance=bytes(32),
        )  # fmt: skip
        found = [await find_merchant(conn, account_id=each.account_id) for each in (merchant, other)]
    assert [each and (each.balance_cents, each.webhook_url) for each in found] == [
        (5_00, None), (7_00, "https://outra.example/w?key=s3cret"),
    ]  # fmt: skip
    seen = await staff.opened(f"/plataforma/lojas/{other.account_id}")
    assert "https://outra.example" in seen.text
    assert "s3cret" not in seen.html, "path and query may hold a secret of the merchant's"


async def test_a_list_longer_than_a_page_is_paged_to_its_end_and_back(pool: Pool, staff: Person) -> None:
    made = [await a_merchant(pool, f"Loja {n}", kyc="rejected") for n in range(30)]
    path, found = "/plataforma/lojas?situacao=rejected", []
    for _ in range(10):
        page = await staff.opened(path)
        found += re.findall(r'class="row-link" href="/plataforma/lojas/([^"]+)"', page.html)
        following = re.search(r'rel="next" href="([^"]+)"', page.html)
        if following is None:
            break
        path = "/plataforma/lojas" + following[1].replace("&amp;", "&")
    assert len(found) == len(set(found))
    assert {str(each.account_id) for each in made} <= set(found)
    for _ in range(10):
        previous = re.search(r'rel="prev" href="([^"]+)"', page.html)
        if previous is None:
            break
        page = await staff.opened("/plataforma/lojas" + previous[1].replace("&amp;", "&"))
    assert found[0] in page.html


async def test_rejecting_or_blocking_an_account_needs_a_reason_and_takes_effect_in_the_api(
    address: str, api: Api, pool: Pool, staff: Person
) -> None:
    account_id = api.third.account_id
    path = f"/plataforma/lojas/{account_id}"
    body = {"account_id": str(account_id), "amount": "1.00"}
    production = await api.token(api.third, "production")

    async def status(key: str) -> tuple[int, str]:
        reply = await api.post("/v1/charges/pix", body, token=production, key=key)
        return reply.status, reply.json().get("error", {}).get("code", "")

    async def decide(kyc: str, reason: str = "") -> Any:
        return await staff.post(f"{path}/cadastro", on=path, kyc=kyc, reason=reason)

    assert await status("a") == (403, "KYC_REQUIRED")
    assert (await decide("rejected")).status == 400
    assert (await decide("blocked", "não se bloqueia o que espera")).status == 400
    assert (await decide("rejected", "documento ilegível")).status == 303
    assert await status("a") == (403, "KYC_REQUIRED")
    assert (await decide("approved")).status == 303
    assert (await status("a"))[0] == 201
    paid_id = await credit_wallet(pool, account_id, 5_00)
    assert (await decide("blocked", "suspeita de fraude")).status == 303
    for token in list(api.app.state.context.callers._known):
        api.app.state.context.callers._known.pop(token)  # as after the three seconds for which the API caches a caller
    assert await status("b") == (403, "KYC_REQUIRED")
    # Replays and reads of earlier charges, refunds, cancels and the sandbox still work.
    replay = await api.post("/v1/charges/pix", body, token=production, key="a")
    assert replay.status == 200
    cancelled = await api.post(f"/v1/charges/{replay.json()['charge_id']}/cancel", None, token=production)
    assert (cancelled.status, cancelled.json()["status"]) == (200, "cancelled")
    refund = await api.post(f"/v1/charges/{paid_id}/refunds", {"amount": "2.00"}, token=production, key="r")
    assert (refund.status, refund.json()["amount"]) == (201, "2.00")
    assert (await api.get("/v1/charges", token=production)).status == 200
    sandbox = await api.post("/v1/charges/pix", body, token=await api.token(api.third), key="s")
    assert sandbox.status == 201
    page = (await staff.opened(path)).text
    for said in (
        "suspeita de fraude",
        "Aprovou um cadastro",
        "Recusou um cadastro",
        "motivo: documento ilegível",
        staff.email,
    ):
        assert said in page
    # The merchant's people see the block, and not who decided it.
    async with owner_in_browser(address, api.third) as owner:
        assert "Cadastro bloqueado" in (await owner.opened("/painel")).text
        assert staff.email not in (await owner.opened("/painel/auditoria")).text


async def test_an_unknown_id_and_a_malformed_id_answer_the_same_404(staff: Person) -> None:
    for odd in (NOBODY, NOBODY.upper(), "0", "%00", "%2e%2e%2f", "é", "00000000-0000-0000-0000-000000000000"):
        for path in (f"/plataforma/lojas/{odd}", f"/plataforma/relatorios/{odd}"):
            seen = await staff.get(path)
            assert (seen.status, "Página não encontrada" in seen.text) == (404, True), path
    for path in (f"/plataforma/lojas/{NOBODY}/cadastro", f"/plataforma/parceiros/{NOBODY}"):
        assert (await staff.post(path, kyc="approved", share="1", active="yes")).status == 404


# PIX, partners, reports, audit


async def test_suspending_pix_takes_effect_with_the_next_request_and_is_audited(api: Api, staff: Person) -> None:
    production = await api.token(api.first, "production")

    async def status(key: str) -> int:
        return (await api.post("/v1/charges/pix", api.pix(), token=production, key=key)).status

    assert await status("before") == 201
    assert (await staff.post("/plataforma/pix/suspender", on="/plataforma")).status == 400
    try:
        done = await staff.post("/plataforma/pix/suspender", on="/plataforma", reason="ordem do banco")
        assert done.status == 303
        assert await status("while") == 403
        assert await status("before") == 200
        assert "Suspenso" in (await staff.opened("/plataforma")).text
    finally:
        assert (await staff.post("/plataforma/pix/retomar", on="/plataforma")).status == 303
    assert await status("after") == 201
    told = await staff.audit_log()
    assert "Suspendeu o Pix avulso" in told
    assert "motivo: ordem do banco" in told
    assert "Retomou o Pix avulso" in told


async def test_a_partner_can_be_created_and_changed_and_the_creation_is_audited(pool: Pool, staff: Person) -> None:
    merchant = await a_merchant(pool)
    name = f"Parceira {merchant.account_id.hex[-6:]}"
    for share, account in (("101", ""), ("x", ""), ("1,234", ""), ("1", NOBODY), ("1", "x")):
        refused = await staff.post(
            "/plataforma/parceiros", on="/plataforma/parceiros", name=name, share=share, account_id=account
        )
        assert refused.status == 400, (share, account)
    given: dict[str, Any] = {"name": name, "share": "2,5", "account_id": str(merchant.account_id)}
    assert (await staff.post("/plataforma/parceiros", on="/plataforma/parceiros", **given)).status == 303
    code = await pool.fetchval("SELECT integrador_code FROM integrator WHERE name = $1", name)
    shown = (await staff.opened(f"/plataforma/parceiros?codigo={code.lower()}")).text
    assert f"{name} {code} Ativo 2,50 %" in shown
    refused = await staff.post(f"/plataforma/parceiros/{code}", on="/plataforma/parceiros", share="x")
    assert refused.status == 400
    typed = re.findall(r'<input id="(?:share|active)-1"[^>]*>', refused.html)
    assert ['value="x"' in typed[0], "checked" in typed[1]] == [True, False], typed
    changed = await staff.post(f"/plataforma/parceiros/{code}", on="/plataforma/parceiros", share="3")
    assert changed.status == 303
    shown = (await staff.opened(f"/plataforma/parceiros?codigo={code}")).text
    assert f"{name} {code} Inativo 3,00 %" in shown
    log = await staff.audit_log()
    assert f"Criou um parceiro {name} participação (%): 2,5 conta: {merchant.account_id}" in log


async def test_partners_can_be_changed_in_the_home_cell_only(pool: Pool, staff: Person, monkeypatch: Any) -> None:
    async with transaction(pool) as conn:
        made = await create_integrator(conn, name="Parceira", account_id=None, now=datetime.now(UTC), share_bps=100)
    path, code = "/plataforma/parceiros", made.integrador_code
    assert "Criar parceiro" in (await staff.opened(path)).text
    monkeypatch.setattr("web.plataforma.partners.current_cell", lambda: 5)
    shown = (await staff.opened(f"{path}?codigo={code}")).text
    assert "cadastrados na célula home" in shown
    assert code in shown
    assert "Criar parceiro" not in shown
    assert "Mudar parceiro" not in shown
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        (path, {"name": "Outra"}),
        (f"{path}/{code}", {"share": "3", "active": "yes"}),
    )
    for to, given in changes:
        refused = await staff.post(to, on="/plataforma/equipe", **given)
        assert refused.status == 400
        assert "cadastrados na célula home" in refused.text
    async with session(pool) as conn:
        assert await find_integrator(conn, integrador_code=code) == made


async def test_every_report_is_a_page_and_two_files_about_production_only(pool: Pool, staff: Person) -> None:
    merchant = await a_merchant(pool)
    books = Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))
    await books.paid(await books.charge(12_345, external_id="=SOMA(A1)"))
    await books.paid(await books.charge(99_999, test=True))
    listed = await staff.opened("/plataforma/relatorios")
    today = datetime.now(SAO_PAULO).date().isoformat()
    for name, report in REPORTS.items():
        assert f'href="/plataforma/relatorios/{name}"' in listed.html
        page = await staff.opened(f"/plataforma/relatorios/{name}")
        assert report.title in page.text
        query = f"?conta={merchant.account_id}" + (f"&de={today}&ate={today}" if report.dated else "")
        page = await staff.opened(f"/plataforma/relatorios/{name}{query}")
        file = await staff.opened(f"/plataforma/relatorios/{name}/arquivo{query}")
        assert file.html.startswith("\ufeff"), name
        assert "attachment" in file.headers["Content-Disposition"]
        rows = list(csv.reader(io.StringIO(file.html.removeprefix("\ufeff")), delimiter=";"))
        assert rows[0] == [column.heading for column in report.columns]
        sheet = await staff.http.get(f"{staff.address}/plataforma/relatorios/{name}/planilha{query}")
        assert sheet.headers["Content-Disposition"].endswith('.xlsx"')
        lines = list(openpyxl.load_workbook(io.BytesIO(await sheet.read())).worksheets[0].values)
        assert list(lines[0]) == rows[0]
        assert len(lines) == len(rows), name
        for wrong in (
            "de=amanhã", f"de={today}&ate=2020-01-01", "conta=ninguém se chama assim", "por=semana",
            "ate=0001-01-10", "de=0001-01-01&ate=0001-01-02", "de=9999-12-31&ate=9999-12-31",
        ):  # fmt: skip
            assert (await staff.get(f"/plataforma/relatorios/{name}?{wrong}")).status == 400, (name, wrong)
        assert (await staff.get(f"/plataforma/relatorios/{name}?nada=1")).status == 400
    days = f"?conta={merchant.account_id}&de={today}&ate={today}"
    # The page shows words; the CSV file, which programs read as well, has the codes.
    page = await staff.opened(f"/plataforma/relatorios/settlement{days}")
    assert "Abertura" in page.text
    assert "Pagamento recebido" in page.text
    assert not {"opening", "payment"} & set(page.text.split())
    file = await staff.opened(f"/plataforma/relatorios/settlement/arquivo{days}")
    assert ";opening;" in file.html
    assert ";payment;" in file.html
    sheet = await staff.http.get(f"{staff.address}/plataforma/relatorios/settlement/planilha{days}")
    book = openpyxl.load_workbook(io.BytesIO(await sheet.read()))
    assert 123.45 in {cell.value for row in book.worksheets[0] for cell in row}  # a number, as Excel adds it up
    settled = await staff.opened(f"/plataforma/relatorios/settlement/arquivo{days}")
    assert "123,45" in settled.html
    assert "999,99" not in settled.html
    for kind in ("arquivo", "planilha"):
        assert (await staff.get(f"/plataforma/relatorios/settlement/{kind}")).status == 404


async def test_a_report_compares_its_total_with_the_period_before_and_plots_it(pool: Pool, staff: Person) -> None:
    merchant = await a_merchant(pool)
    await book_past_payments(pool, merchant.account_id, (2, 160_00), (1, 50_00), (0, 150_00))
    last = datetime.now(SAO_PAULO).date()
    period = f"conta={merchant.account_id}&de={last - timedelta(days=1)}&ate={last}"
    page = await staff.opened(f"/plataforma/relatorios/receipts?{period}")
    assert f"Valor {brl(200_00)} antes {brl(160_00)} {brl(160_00)} +25,0 %" in page.text
    assert "Pagamentos 2 antes 1 1 +100,0 %" in page.text
    assert f"Total 2 {brl(200_00)} 0 0" in page.text
    assert page.html.count('class="plot-bar') == 2
    assert f"{brl(150_00)}</title>" in page.html
    closed = await staff.opened(f"/plataforma/relatorios/settlement?{period}")
    assert f"Valor {brl(200_00)} antes {brl(160_00)} {brl(160_00)} +25,0 %" in closed.text
    nothing = await staff.opened(
        f"/plataforma/relatorios/receipts?conta={merchant.account_id}&de=2020-01-01&ate=2020-01-02"
    )
    assert "Nenhuma linha" in nothing.text
    assert "plot-bar" not in nothing.html
    for name, days in (("receipts", 731), ("settlement", 92)):
        too_long = await staff.get(f"/plataforma/relatorios/{name}?conta={merchant.account_id}&de=2020-01-01")
        assert (too_long.status, f"ou passa de {days} dias." in too_long.text) == (400, True)


async def test_rows_and_total_of_a_report_are_read_at_one_instant(pool: Pool, staff: Person, monkeypatch: Any) -> None:
    merchant = await a_merchant(pool)
    await book_past_payments(pool, merchant.account_id, (0, 150_00))

    async def read_after_another_payment(*asked: Any) -> Any:
        await book_past_payments(pool, merchant.account_id, (0, 7_00))
        return await whole(*asked)

    monkeypatch.setattr(reports, "whole", read_after_another_payment)
    page = await staff.opened(f"/plataforma/relatorios/receipts?conta={merchant.account_id}")
    assert f"Pix 1 {brl(150_00)} 0 0 Total 1 {brl(150_00)} 0 0" in page.text


async def test_a_report_can_be_requested_for_a_merchant_by_name_document_id_or_email(pool: Pool, staff: Person) -> None:
    word = f"Boticário {new_id().hex[-10:]}"
    first, second = await a_merchant(pool, word), await a_merchant(pool, f"{word} Filial")
    path = "/plataforma/relatorios/receipts"

    async def request_report(text: str) -> Seen:
        return await staff.ask("GET", path, params={"conta": text})

    document = await pool.fetchval("SELECT document FROM account WHERE account_id = $1", first.account_id)
    for text in (word, word.upper(), document, str(first.account_id), first.dashboard.email):
        seen = await request_report(text)
        assert (seen.status, f"Só {word} ." in seen.text) == (200, True), text
        assert f"/plataforma/relatorios/receipts/arquivo?conta={first.account_id}" in seen.html, text
    several = await request_report(word[:-1])
    assert (several.status, "Qual loja?" in several.text) == (400, True)
    for merchant in (first, second):
        assert f"?conta={merchant.account_id}" in several.html
    assert "Baixar CSV" not in several.text
    third = await a_merchant(pool, word)
    again = await request_report(word)
    assert again.status == 400
    assert f"?conta={third.account_id}" in again.html
    assert f"?conta={second.account_id}" not in again.html
    unknown = await request_report("ninguém se chama assim")
    assert (unknown.status, "Nenhuma loja com este nome" in unknown.text) == (400, True)
    file = await staff.ask("GET", f"{path}/arquivo", params={"conta": "ninguém se chama assim"})
    assert file.status == 404


async def test_a_file_sent_to_a_slow_browser_holds_no_connection(
    servers: Any, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant = await a_merchant(pool)
    await Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)).charge(12_345)
    monkeypatch.setattr(reports, "_FLUSH_BYTES", 1)  # every row is sent by itself
    report, today = REPORTS["settlement"], datetime.now(SAO_PAULO).date()
    asked = ask(report, today=today, first=today, last=today, account_id=merchant.account_id)
    own = await open_pool(servers.database_url, name="web", size=1)
    try:
        lines = reports._lines(lambda: session(own), report, asked)
        assert b"opening" in await anext(lines)
        async with session(own) as conn:  # another reader's page
            assert await conn.fetchval("SELECT true")
        assert b"closing" in b"".join([block async for block in lines])
    finally:
        own.terminate()  # does not wait for a connection that is still in use


async def test_the_audit_logs_of_merchants_and_of_staff_are_separate(address: str, pool: Pool, staff: Person) -> None:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as owner:
        of_owner, of_staff = await owner.audit_log(), await staff.audit_log()
        assert (owner.email in of_staff, owner.email in of_owner) == (False, True)
        assert (staff.email in of_owner, staff.email in of_staff) == (False, True)


async def test_a_deleted_member_of_staff_loses_access_with_the_next_page(address: str, pool: Pool) -> None:
    async with staff_in_browser(pool, address) as person:
        assert (await person.get("/plataforma")).status == 200
        await pool.execute("DELETE FROM dashboard_user WHERE email = $1", person.email)
        assert (await person.get("/plataforma")).status == 303


async def test_allowing_an_account_to_refund_to_anyone_needs_a_reason_and_can_be_revoked(
    pool: Pool, staff: Person
) -> None:
    merchant = await a_merchant(pool)
    page = f"/plataforma/lojas/{merchant.account_id}"
    silent = await staff.post(f"{page}/devolucoes/liberar", on=page, reason=" ")
    assert (silent.status, "Escreva o motivo" in silent.text) == (400, True)
    freed = "SELECT refunds_to_others FROM account WHERE account_id = $1"
    assert await pool.fetchval(freed, merchant.account_id) is None
    done = await staff.post(f"{page}/devolucoes/liberar", form=silent, reason="seguradora")
    assert done.status == 303
    assert await pool.fetchval(freed, merchant.account_id) == "seguradora"
    seen = await staff.opened(page)
    assert "Para qualquer pessoa" in seen.text
    assert "Liberou devoluções" in seen.text
    assert (await staff.post(f"{page}/devolucoes/prender", form=seen)).status == 303
    assert await pool.fetchval(freed, merchant.account_id) is None
    log = await pool.fetch(
        "SELECT email, action FROM audit WHERE account_id = $1 AND action LIKE 'merchant.refunds%' ORDER BY at",
        merchant.account_id,
    )
    assert [tuple(row) for row in log] == [
        ("Plataforma", "merchant.refunds_freed"), ("Plataforma", "merchant.refunds_bound"),
    ]  # fmt: skip
    assert (
        await staff.post(f"/plataforma/lojas/{NOBODY}/devolucoes/liberar", on="/plataforma", reason="x")
    ).status == 404


async def test_a_payout_key_change_requested_by_staff_needs_a_second_member_of_staff(
    pool: Pool, staff: Person, address: str
) -> None:
    merchant = await a_merchant(pool)
    page = f"/plataforma/lojas/{merchant.account_id}"
    wrong = await staff.post(f"{page}/chave", on=page, pix_key="loja", document="1")
    assert (wrong.status, "Informe outra chave" in wrong.text, "Informe um CPF" in wrong.text) == (400, True, True)
    key: Any = {"pix_key": "Financeiro@Loja.example.com", "document": "11.222.333/0001-81"}
    assert (await staff.post(f"{page}/chave", form=wrong, **key)).status == 303
    again = await staff.post(f"{page}/chave", on=page, **key)
    assert (again.status, "Outra troca já espera" in again.text) == (400, True)
    seen = await staff.opened(page)
    assert "f***@loja.example.com" in seen.text
    assert "financeiro@" not in seen.html
    found = re.search(r'name="change_id" value="([^"]+)"', seen.html)
    assert found
    own = await staff.post(f"{page}/chave/confirmar", form=seen, change_id=found[1])
    assert (own.status, "segunda pessoa da equipe" in own.text) == (400, True)
    waiting = "SELECT effective_at FROM payout_change WHERE change_id = $1"
    assert await pool.fetchval(waiting, UUID(found[1])) is None
    async with staff_in_browser(pool, address) as colleague:
        assert (await colleague.post(f"{page}/chave/confirmar", on=page, change_id=found[1])).status == 303
        assert await pool.fetchval(waiting, UUID(found[1])) is not None
        late = await colleague.post(f"{page}/chave/confirmar", on=page, change_id=found[1])
        assert (late.status, "não espera mais" in late.text) == (400, True)
        async with owner_in_browser(address, merchant) as owner:
            saques = await owner.opened("/painel/saques")
            assert "Passa a valer em" in saques.text
            assert staff.email not in saques.html
            log = (await owner.opened("/painel/auditoria")).text
            assert "Pediu outra chave para os saques" in log
            assert colleague.email not in log
            assert (await owner.post("/painel/saques/chave/cancelar", form=saques, change_id=found[1])).status == 303
            assert "Trocar a chave" in (await owner.opened("/painel/saques")).text
        gone = await colleague.post(f"{page}/chave/cancelar", on=page, change_id=found[1])
        assert gone.status == 400


async def test_a_share_above_twenty_percent_needs_two_members_of_staff(pool: Pool, staff: Person, address: str) -> None:
    path = "/plataforma/parceiros"
    name = f"Parceira {new_id().hex[:8]}"
    share = "SELECT share_bps FROM integrator_share WHERE integrador_code = $1 ORDER BY since DESC LIMIT 1"
    assert (await staff.post(path, on=path, name=name, share="20,01")).where == f"{path}?feito=parceiro-proposto"
    code = str(await pool.fetchval("SELECT integrador_code FROM integrator WHERE name = $1", name))
    one = f"{path}?codigo={code}"
    assert await pool.fetchval(share, code) is None
    page = await staff.opened(one)
    assert "Espera uma segunda pessoa da equipe" in page.text
    found = re.search(r'name="proposal_id" value="([^"]+)"', page.html)
    assert found
    own = await staff.post(f"{path}/{code}/confirmar", form=page, proposal_id=found[1])
    assert (own.status, "é preciso uma segunda pessoa" in own.text) == (400, True)
    assert await pool.fetchval(share, code) is None
    async with staff_in_browser(pool, address) as colleague:
        assert (await colleague.post(f"{path}/{code}/confirmar", on=one, proposal_id=found[1])).status == 303
        assert await pool.fetchval(share, code) == 2_001
        late = await colleague.post(f"{path}/{code}/confirmar", on=one, proposal_id=found[1])
        assert (late.status, "não espera mais" in late.text) == (400, True)
        # A share of up to 20 % takes effect at once; a higher one waits, and may be withdrawn.
        for given, held in (("20,00", 2_000), ("20,00", 2_000), ("100", 2_000)):
            assert (await staff.post(f"{path}/{code}", on=one, share=given, active="yes")).status == 303
            assert await pool.fetchval(share, code) == held
        page = await colleague.opened(one)
        found = re.search(r'name="proposal_id" value="([^"]+)"', page.html)
        assert found
        assert (await colleague.post(f"{path}/{code}/retirar", form=page, proposal_id=found[1])).status == 303
        gone = await colleague.post(f"{path}/{code}/confirmar", on=one, proposal_id=found[1])
        assert gone.status == 400
    assert await pool.fetchval(share, code) == 2_000
    assert (await staff.post(f"{path}/INTG-000000/confirmar", on=path, proposal_id=found[1])).status == 404
    log = await pool.fetch("SELECT action FROM audit WHERE subject = $1 ORDER BY at", code)
    assert [row[0] for row in log] == [
        "integrator.share_proposed", "integrator.share_confirmed", "integrator.changed", "integrator.changed",
        "integrator.share_proposed", "integrator.share_withdrawn",
    ]  # fmt: skip


async def test_a_stale_form_of_one_person_does_not_restore_a_share_lowered_meanwhile(pool: Pool, staff: Person) -> None:
    path = "/plataforma/parceiros"
    async with transaction(pool) as conn:
        made = await create_integrator(conn, name="Parceira", account_id=None, now=datetime.now(UTC), share_bps=3_000)
    one = f"{path}?codigo={made.integrador_code}"
    form = await staff.opened(one)
    async with transaction(pool) as conn:
        await set_integrator(conn, made.integrador_code, now=datetime.now(UTC), share_bps=500)
        sent = asyncio.create_task(staff.post(f"{path}/{made.integrador_code}", form=form, share="30,00", active="yes"))
        async with asyncio.timeout(30):
            while not sent.done() and not await pool.fetchval(WAITS):  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
    seen = await sent
    assert (seen.status, "mudou neste meio-tempo" in seen.text) == (400, True)
    assert "Ativo 5,00 %" in (await staff.opened(one)).text


# Queues


async def test_failing_or_paused_receivers_and_sandboxes_do_not_count_as_webhook_lag(
    conn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, merchant = (
        datetime.now(UTC),
        await create_merchant(conn, name="Loja", address=True, kyc="approved", now=datetime.now(UTC)),
    )
    endpoint = await set_endpoint(
        conn, merchant.account_id, "https://loja.example/w", allow_private=True, now=now,
        seal=Seal(SETTINGS.secret_key), chance=bytes(32),
    )  # fmt: skip
    before = {each.name: each.waiting for each in await queues(conn, now=datetime.now(UTC))}
    assert set(before) >= {"webhooks", "webhooks_of_failing_receivers", "webhooks_held"}
    lanes = {each.state: each.lanes for each in await lanes_in_trouble(conn)}
    oldest = datetime(2000, 1, 1, tzinfo=UTC)

    async def change_of_queues(*, test: bool, lane: str, state: str = "pending") -> dict[str, int]:
        begun = conn.transaction()
        await begun.start()
        await conn.execute(
            "INSERT INTO webhook_lane (endpoint_id, test, state) VALUES ($1, $2, $3)"
            " ON CONFLICT (endpoint_id, test) DO UPDATE SET state = excluded.state",
            endpoint.endpoint_id, test, lane,
        )  # fmt: skip
        for days in (1, 0):
            await conn.execute(
                "INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type,"
                " state, due_at, created_at) VALUES ($1, $2, $3, $4, $5, $8, 'payment.received', $6, $7, $7)",
                new_id(), endpoint.endpoint_id, merchant.account_id, test, new_id(), state,
                oldest + timedelta(days=days), 1 + days,
            )  # fmt: skip
        after = await queues(conn, now=datetime.now(UTC))
        with monkeypatch.context() as counted:  # while more is due than is counted, a number says so
            counted.setattr("readmodels.reports.backlog.COUNTED_MAX", 1)
            more = {each.name: each.more for each in await queues(conn, now=datetime.now(UTC))}
            assert more["webhooks"] or test or lane != "open"
            assert not more["webhooks_held"]
        now_in_trouble = {each.state: each.lanes for each in await lanes_in_trouble(conn)}
        await begun.rollback()
        assert now_in_trouble == lanes | ({} if test or lane == "open" else {lane: lanes.get(lane, 0) + 1})
        changed = {each.name: each.waiting - before[each.name] for each in after if each.waiting != before[each.name]}
        assert [each.due_at for each in after if each.name in changed] == [oldest] * len(changed)
        return changed

    assert await change_of_queues(test=False, lane="open") == {"webhooks": 2}
    assert await change_of_queues(test=False, lane="broken") == {"webhooks_of_failing_receivers": 2}
    assert await change_of_queues(test=False, lane="paused", state="held") == {"webhooks_held": 2}
    for state in ("pending", "held"):
        assert await change_of_queues(test=True, lane="broken", state=state) == {}
    assert [span(timedelta(seconds=each)) for each in (59, 2339, 9000, 400_000)] == ["59 s", "38 min", "2 h", "4 dias"]


async def test_the_first_page_counts_orders_and_hints_that_wait_in_production(conn: Any) -> None:
    account_id = (
        await create_merchant(conn, name="Loja", address=True, kyc="approved", now=datetime.now(UTC))
    ).account_id
    before = {each.name: each.waiting for each in await queues(conn, now=datetime.now(UTC))}
    working = (await bank_state(conn)).working

    async def change(*, kind: str, test: bool = False, state: str = "waiting") -> tuple[dict[str, int], int]:
        begun = conn.transaction()
        await begun.start()
        await conn.execute(
            "INSERT INTO bank_order (order_id, account_id, test, bank, kind, request, state, due_at, created_at)"
            " VALUES ($1, $2, $3, '001', $4, '{}', $5, now(), now())",
            new_id(), account_id, test, kind, state,
        )  # fmt: skip
        after = {each.name: each.waiting for each in await queues(conn, now=datetime.now(UTC))}
        held = (await bank_state(conn)).working
        await begun.rollback()
        return {name: count - before[name] for name, count in after.items() if count != before[name]}, held - working

    lanes = {OrderLane.PIX: "bank_pix", OrderLane.PIX_CHANGE: "bank_pix", OrderLane.REFUND: "bank_refunds",
             OrderLane.TRANSFER: "bank_refunds"}  # fmt: skip
    for kind in OrderKind:
        if kind.lane is not OrderLane.WITHDRAWAL:
            assert await change(kind=kind) == ({lanes.get(kind.lane, "bank_boletos"): 1}, 0), kind
        assert await change(kind=kind, test=True) == ({}, 0), kind
        assert await change(kind=kind, state="working") == ({}, 1), kind
        assert await change(kind=kind, test=True, state="working") == ({}, 0), kind
    # Of each queue three items, the first due on the first day of 2000; others of that day are sent, held or of tests.
    blocked_id = (
        await create_merchant(conn, name="Loja", address=True, kyc="pending", now=datetime.now(UTC))
    ).account_id
    for owner_id, ordered, status, test, state, days in (
        (account_id, "boleto_register", "pending", False, "waiting", 1),
        (account_id, "boleto_write_off", "pending", False, "waiting", 0),
        (account_id, "boleto_write_off", "pending", False, "waiting", 2),
        (account_id, "withdrawal_send", "pending", False, "waiting", 1),
        (account_id, "withdrawal_send", "pending", False, "waiting", 0),
        (blocked_id, "withdrawal_send", "processing", False, "waiting", 2),
        (blocked_id, "withdrawal_send", "pending", False, "waiting", -1),
        (account_id, "withdrawal_send", "pending", True, "waiting", -1),
        (account_id, "withdrawal_send", "pending", False, "working", -1),
    ):
        await conn.execute(
            "WITH w AS (INSERT INTO withdrawal (account_id, withdrawal_id, status, version, amount_cents, created_at)"
            " VALUES ($2, $1, $3, 1, 100, now()))"
            " INSERT INTO bank_order (order_id, account_id, test, bank, kind, request, state, due_at, created_at)"
            " VALUES ($1, $2, $4, '001', $5, '{}', $6, timestamptz '2000-01-01 00:00+00' + $7, now())",
            new_id(), owner_id, status, test, ordered, state, timedelta(days=days),
        )  # fmt: skip
    for about, days in (("E1", 1), ("boleto:1", 0), ("boleto:2", 2)):
        await conn.execute(
            "INSERT INTO bank_hint (bank, about, txid, received_at, due_at)"
            " VALUES ('001', $1, '', now(), timestamptz '2000-01-01 00:00+00' + $2)", about, timedelta(days=days),
        )  # fmt: skip
    for state, days in (("waiting", 1), ("waiting", 0), ("waiting", 2), ("sent", -1)):
        await conn.execute(
            "INSERT INTO mail (mail_id, account_id, charge_id, kind, to_sealed, to_hash, state, due_at, created_at)"
            " VALUES ($1, $2, $1, 'charge', '', '', $3, timestamptz '2000-01-01 00:00+00' + $4, now())",
            new_id(), account_id, state, timedelta(days=days),
        )  # fmt: skip
    waiting = {
        each.name: (each.waiting - before[each.name], each.due_at) for each in await queues(conn, now=datetime.now(UTC))
    }
    for name in ("bank_boletos", "bank_withdrawals", "bank_hints", "mails"):
        assert waiting[name] == (3, datetime(2000, 1, 1, tzinfo=UTC)), name


async def test_the_first_page_shows_the_reconciliation_of_pix_and_the_locations_of_production(conn: Any) -> None:
    locations = (await bank_state(conn)).locations
    await conn.execute(
        "INSERT INTO pix_location (test, bank, location_ids, locations) VALUES (false, '001', '{1, 2}', '{a, b}'),"
        " (false, '001', '{3}', '{c}'), (true, '001', '{4}', '{d}')"
    )
    # More blocks than other figures of the page are counted up to.
    await conn.execute(
        "INSERT INTO pix_location (test, bank, location_ids, locations)"
        " SELECT false, '001', '{5}', '{e}' FROM generate_series(1, $1)", COUNT_MAX,
    )  # fmt: skip
    await conn.execute(
        "INSERT INTO bank_reconciled (bank, method, pass, until, goal, width_s) VALUES"
        " ('x', 'pix', 'new', '2000-01-02', now(), 1), ('y', 'pix', 'new', '2000-01-03', now(), 1),"
        " ('x', 'boleto', 'new', '2000-01-01', now(), 1), ('x', 'pix', 'again', '2000-01-01', now(), 1)"
    )
    state = await bank_state(conn)
    assert (state.locations - locations, state.reconciled_until) == (
        3 + COUNT_MAX,
        datetime(2000, 1, 2, tzinfo=UTC),
    )
