"""Staff of home sign in once and work in every cell. Nobody else does, and staff removed at home lose every cell."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from commands.mail import address_hash
from runtime.cells.number import HOME, cell_of, cell_of_hex
from runtime.local.embedded import EmbeddedPostgres
from runtime.seal import Seal
from tests.support.cells import Cells, open_cells, second_server
from tests.support.counting import statements_run
from tests.support.staff_in_cells import Page, StaffBrowser, enrol_second_factor, staff_of_cell
from web.cells import cell_mark, chosen_cell

ALA, BELA = 1, 2
SESSION, CHOSEN = "__Host-plataforma", "__Host-plataforma-celula"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cells(servers: Any, second: EmbeddedPostgres) -> AsyncIterator[Cells]:
    async with open_cells(servers, second) as opened:
        yield opened


async def query_value(cells: Cells, number: int, statement: str, *given: Any) -> Any:
    async with cells.pool(number) as pool:
        return await pool.fetchval(statement, *given)


async def audit_entries(cells: Cells, number: int, desk: StaffBrowser) -> list[tuple[str, Any]]:
    async with cells.pool(number) as pool:
        rows = await pool.fetch("SELECT action, facts FROM audit WHERE email = $1 ORDER BY number", desk.email)
    return [(row["action"], json.loads(row["facts"])) for row in rows if row["action"] != "session.opened"]


def is_redirect_to_sign_in(page: Page) -> bool:
    return page.status == 303 and page.where.startswith("/plataforma/entrar")


async def test_one_sign_in_opens_every_cell(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    for name, number in (("bela", BELA), ("ala", ALA), ("home", HOME), ("cora", 3)):
        assert (await desk.choose(name)).where == "/plataforma"
        page = await desk.opened("/plataforma/lojas")
        assert f"<option selected>{name}</option>" in page.html
        here = cells.merchants[number].account_id
        for other, merchant in cells.merchants.items():
            path = f"/plataforma/lojas/{merchant.account_id}"
            assert (await desk.ask("GET", path)).status == (200 if other == number else 404)
        assert str(here) in page.html
        assert cell_of_hex(desk.cookies[SESSION]) == HOME
        if number != HOME:
            assert (
                await query_value(cells, number, "SELECT count(*) FROM dashboard_user WHERE email = $1", desk.email)
                == 0
            )
            assert await query_value(cells, number, "SELECT count(*) FROM dashboard_session") == 0


async def test_a_change_of_cell_redirects_to_the_requested_page(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    path = f"/plataforma/lojas/{cells.merchants[BELA].account_id}"
    changed = await desk.choose("bela", on=f"/plataforma/celula?para={path}", para=path)
    assert (changed.status, changed.where) == (303, path)
    await desk.opened(changed.where)
    for foreign in ("https://elsewhere.example", "//elsewhere.example", "/painel", "/plataforma/../painel"):
        assert (await desk.choose("ala", para=foreign)).where == "/plataforma"
    assert (await desk.choose("nowhere")).status == 404


async def test_an_action_changes_only_the_chosen_cell_and_both_cells_audit_who_acted(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    await desk.choose("bela")
    done = await desk.send("/plataforma/pix/suspender", on="/plataforma", reason="teste")
    assert done.status == 303, done
    suspended = "SELECT count(*) = 1 FROM pix_suspension"
    try:
        assert [await query_value(cells, number, suspended) for number in (HOME, ALA, BELA)] == [False, False, True]
    finally:
        await desk.send("/plataforma/pix/retomar", on="/plataforma")
    await desk.choose("home")
    assert await audit_entries(cells, HOME, desk) == [
        ("cell.entered", {"cell": "bela"}),
        ("cell.entered", {"cell": "home"}),
    ]
    assert await audit_entries(cells, ALA, desk) == []
    assert await audit_entries(cells, BELA, desk) == [
        ("cell.entered", {"cell": "bela", "staff_of": "home"}),
        ("pix.suspended", {"reason": "teste", "staff_of": "home"}),
        ("pix.resumed", {"staff_of": "home"}),
    ]


@pytest.mark.parametrize(
    "how",
    [
        "DELETE FROM dashboard_user WHERE email = $1",
        "DELETE FROM dashboard_session WHERE email = $1",
        "UPDATE dashboard_session SET created_at = now() - interval '8 days' WHERE email = $1",
        "UPDATE dashboard_session SET seen_at = now() - interval '13 hours' WHERE email = $1",
    ],
    ids=["removed", "signed out elsewhere", "seven days over", "idle"],
)
async def test_staff_removed_or_signed_out_at_home_lose_every_cell_with_the_next_page(cells: Cells, how: str) -> None:
    desk = await staff_of_cell(cells)
    await desk.choose("bela")
    form = await desk.opened("/plataforma")
    await query_value(cells, HOME, how, desk.email)
    kept = dict(desk.cookies)
    assert is_redirect_to_sign_in(await desk.ask("GET", "/plataforma/lojas"))
    desk.cookies = dict(kept)
    sent = await desk.ask(
        "POST", "/plataforma/pix/suspender", form.hidden("/plataforma/pix/suspender") | {"reason": "x"}
    )
    assert is_redirect_to_sign_in(sent)
    desk.cookies = dict(kept)
    chosen = await desk.ask("POST", "/plataforma/celula", form.hidden("/plataforma/celula") | {"celula": "ala"})
    assert is_redirect_to_sign_in(chosen)
    assert CHOSEN not in desk.cookies
    assert await query_value(cells, ALA, "SELECT count(*) FROM audit WHERE email = $1", desk.email) == 0


async def test_a_role_changed_at_home_applies_in_every_cell_with_the_next_page(cells: Cells) -> None:
    desk = await staff_of_cell(cells, role="support")
    role = "UPDATE dashboard_user SET role = $2 WHERE email = $1"
    for name in ("home", "bela", "ala"):
        await desk.choose(name)
        page = await desk.opened("/plataforma")
        assert "/plataforma/pix/suspender" not in page.html
        for path in ("/plataforma/devolucoes", "/plataforma/equipe", "/plataforma/relatorios"):
            assert (await desk.ask("GET", path)).status == 403, (name, path)
        # With a form token of this cell, which a role that only reads gets on every page with a form.
        token = (await desk.opened("/plataforma/busca")).hidden("/plataforma/busca")
        sent = await desk.ask("POST", "/plataforma/pix/suspender", {**token, "reason": "teste"})
        assert (sent.status, "Sem permissão" in sent.text) == (403, True)
        await query_value(cells, HOME, role, desk.email, "finance")
        await desk.opened("/plataforma/devolucoes")
        await query_value(cells, HOME, role, desk.email, "support")
        assert (await desk.ask("GET", "/plataforma/devolucoes")).status == 403


async def test_staff_of_home_manage_the_team_of_a_cell_and_may_remove_all_of_it(cells: Cells) -> None:
    """Admins of home invite and remove people in a cell too, even its last admin; the last admin of home stays. The
    other admins of home are mailed about each change: in a cell without other admins one person could otherwise invite
    a second account for themselves and act as two."""
    desk, theirs = await staff_of_cell(cells), await staff_of_cell(cells, ALA)
    colleague = await staff_of_cell(cells, signed_in=False)
    mailed = "SELECT count(*) FROM mail WHERE to_hash = $1"
    team = "/plataforma/equipe"
    assert theirs.email not in (await desk.opened(team)).text
    await desk.choose("ala")
    page = await desk.opened(team)
    assert theirs.email in page.text
    assert "(você)" not in page.text
    email = f"nova.{theirs.email}"
    made = await desk.ask("POST", team, {**page.hidden(team), "name": "Nova", "email": email, "role": "finance"})
    assert made.where == f"{team}?feito=convite", made.text[:300]
    found = "SELECT role FROM dashboard_user WHERE email = $1"
    assert await query_value(cells, ALA, found, email) == "finance"
    assert await query_value(cells, HOME, found, email) is None
    for each in (email, theirs.email):
        path = f"{team}/remover"
        hidden = (await desk.opened(team)).hidden_with("email", each)
        assert (await desk.ask("POST", path, {**hidden, "sure": "yes"})).where == f"{team}?feito=pessoa-removida"
    assert is_redirect_to_sign_in(await theirs.ask("GET", "/plataforma"))
    assert await query_value(cells, ALA, "SELECT count(*) FROM dashboard_user WHERE account_id IS NULL") == 0
    assert await query_value(cells, HOME, mailed, address_hash(colleague.email, cells.seal)) == 3
    ids = "SELECT mail_id FROM mail WHERE to_hash = $1 LIMIT 1"
    assert cell_of(await query_value(cells, HOME, ids, address_hash(colleague.email, cells.seal))) == HOME
    assert [action for action, _ in await audit_entries(cells, ALA, desk)] == [
        "cell.entered", "staff.invited", "staff.removed", "staff.removed",
    ]  # fmt: skip


async def test_signing_out_in_a_cell_signs_out_of_all_cells(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    await desk.choose("bela")
    kept = dict(desk.cookies)
    assert is_redirect_to_sign_in(await desk.send("/plataforma/sair", on="/plataforma/lojas"))
    assert {SESSION, CHOSEN}.isdisjoint(desk.cookies)
    desk.cookies = dict(kept)
    assert is_redirect_to_sign_in(await desk.ask("GET", "/plataforma/lojas"))
    # The next session begins at home, also in a browser that has kept the choice of the previous session.
    desk.cookies = {CHOSEN: kept[CHOSEN]}
    assert (await desk.sign_in()).status == 303
    assert "<option selected>home</option>" in (await desk.opened("/plataforma")).html
    desk.cookies[CHOSEN] = kept[CHOSEN]
    assert is_redirect_to_sign_in(await desk.ask("GET", "/plataforma")), "a choice is valid in one session only"


async def test_a_choice_of_cell_is_valid_only_with_the_session_that_made_it(cells: Cells) -> None:
    desk, other, theirs = await staff_of_cell(cells), await staff_of_cell(cells), await staff_of_cell(cells, ALA)
    await desk.choose("bela")
    mark = desk.cookies[CHOSEN]
    seal = Seal(cells.settings.secret_key)
    for cookies in (
        {CHOSEN: mark},
        {CHOSEN: mark, SESSION: other.cookies[SESSION]},
        {CHOSEN: mark[:3], SESSION: desk.cookies[SESSION]},
        {CHOSEN: "001" + mark[3:], SESSION: desk.cookies[SESSION]},
        {CHOSEN: "é" + mark, SESSION: desk.cookies[SESSION]},
    ):
        nobody = StaffBrowser(cells, "", "")
        nobody.cookies = cookies
        page = await nobody.ask("GET", f"/plataforma/lojas/{cells.merchants[BELA].account_id}")
        assert is_redirect_to_sign_in(page) or page.status == 404, (cookies, page)
    # Staff of one cell stay in it, whatever cell the cookie marks.
    theirs.cookies[CHOSEN] = cell_mark(seal, theirs.cookies[SESSION], BELA)
    assert chosen_cell(seal, theirs.cookies[SESSION], theirs.cookies[CHOSEN]) == ALA
    await theirs.opened(f"/plataforma/lojas/{cells.merchants[ALA].account_id}")
    assert (await theirs.ask("GET", f"/plataforma/lojas/{cells.merchants[BELA].account_id}")).status == 404


async def test_staff_of_one_cell_are_offered_no_other(cells: Cells) -> None:
    desk = await staff_of_cell(cells, ALA)
    page = await desk.opened("/plataforma/celula")
    assert "cell-choice" not in page.html
    hidden = page.hidden("/plataforma/sair")
    for name in ("home", "bela", "ala"):
        assert (await desk.ask("POST", "/plataforma/celula", {**hidden, "celula": name})).status == 404


async def test_a_person_of_a_merchant_cannot_choose_a_cell(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    await desk.choose("bela")
    owner = cells.merchants[HOME].dashboard
    person = StaffBrowser(cells, owner.email, owner.password)
    form = await person.opened("/painel/entrar")
    given = {"email": owner.email, "password": owner.password, "para": ""}
    await person.ask("POST", "/painel/entrar", {**form.hidden("/painel/entrar"), **given})
    session = person.cookies["__Host-painel"]
    person.cookies |= {SESSION: session, CHOSEN: cell_mark(cells.seal, session, BELA)}
    assert is_redirect_to_sign_in(await person.ask("GET", "/plataforma/lojas"))
    page = await person.opened("/painel")
    assert "cell-choice" not in page.html


async def test_a_form_is_refused_in_another_cell_than_it_was_shown_in(cells: Cells) -> None:
    """Of two tabs one has changed the cell, and the other still shows a page of the previous cell."""
    desk = await staff_of_cell(cells)
    of_home = (await desk.opened("/plataforma")).hidden("/plataforma/pix/suspender") | {"reason": "teste"}
    await desk.choose("bela")
    of_bela = (await desk.opened("/plataforma")).hidden("/plataforma/pix/suspender") | {"reason": "teste"}
    assert (await desk.ask("POST", "/plataforma/pix/suspender", of_home)).status == 403
    await desk.choose("ala")
    assert (await desk.ask("POST", "/plataforma/pix/suspender", of_bela)).status == 403
    await desk.choose("home")
    assert (await desk.ask("POST", "/plataforma/pix/suspender", of_bela)).status == 403
    for number in cells.urls:
        assert not await query_value(cells, number, "SELECT count(*) = 1 FROM pix_suspension")


async def test_a_cell_is_chosen_only_by_a_form_of_the_session_and_only_once(cells: Cells) -> None:
    desk, other = await staff_of_cell(cells), await staff_of_cell(cells)
    hidden = (await desk.opened("/plataforma")).hidden("/plataforma/celula")
    for forged in ({**hidden, "csrf": ""}, {**hidden, "csrf": "0" * 64}, {"once": hidden["once"]}):
        assert (await desk.ask("POST", "/plataforma/celula", forged | {"celula": "bela"})).status == 403
    assert (await other.ask("POST", "/plataforma/celula", {**hidden, "celula": "bela"})).status == 403
    assert (await desk.ask("GET", "/plataforma/celula?celula=bela")).status == 200
    assert CHOSEN not in desk.cookies
    assert (await desk.ask("POST", "/plataforma/celula", {**hidden, "celula": "bela"})).status == 303
    again = await desk.ask("POST", "/plataforma/celula", {**hidden, "celula": "bela"})
    assert (again.status, "já foi enviado" in again.text) == (409, True)
    assert len(await audit_entries(cells, HOME, desk)) == len(await audit_entries(cells, BELA, desk)) == 1


async def test_a_repeated_password_check_is_made_at_home_and_holds_in_every_cell(cells: Cells) -> None:
    desk = await staff_of_cell(cells, signed_in=False)
    codes = await enrol_second_factor(cells, desk)
    assert (await desk.sign_in(code=codes[0])).status == 303
    await desk.choose("bela")
    merchant = cells.merchants[BELA]
    at, path = f"/plataforma/lojas/{merchant.account_id}", f"/plataforma/lojas/{merchant.account_id}/acesso"
    sent = "SELECT count(*) FROM audit WHERE email = $1 AND action = 'person.access_sent'"
    old = "UPDATE dashboard_session SET proved_at = now() - interval '6 minutes' WHERE email = $1"
    await query_value(cells, HOME, old, desk.email)
    again = await desk.send(path, on=at, email=merchant.dashboard.email)
    assert (again.status, "Confirme que é você" in again.text) == (403, True)
    assert await query_value(cells, BELA, sent, desk.email) == 0
    wrong = {"step_up_password": desk.password, "step_up_code": "000000"}
    again = await desk.ask("POST", path, {**again.hidden(path), **wrong})
    assert again.status == 403
    right = {"step_up_password": desk.password, "step_up_code": codes[1]}
    done = await desk.ask("POST", path, {**again.hidden(path), **right})
    assert (done.status, done.where.split("?")[0]) == (303, at), done.text[:400]
    assert await query_value(cells, BELA, sent, desk.email) == 1
    proved = "SELECT now() - proved_at < interval '1 minute' FROM dashboard_session WHERE email = $1"
    assert await query_value(cells, HOME, proved, desk.email)
    # The check holds in the other cells as well, for as long as at home.
    await desk.choose("ala")
    merchant = cells.merchants[ALA]
    at = f"/plataforma/lojas/{merchant.account_id}"
    assert (await desk.send(f"{at}/acesso", on=at, email=merchant.dashboard.email)).status == 303
    # Wrong passwords are counted at home, where the person is registered.
    assert await query_value(cells, BELA, "SELECT count(*) FROM sign_in_attempt") == 0


async def test_staff_of_home_change_their_own_password_at_home_from_every_cell(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    await desk.choose("bela")
    page = await desk.opened("/plataforma/acesso")
    assert "<option selected>bela</option>" in page.html, "the menu must show the cell that was chosen"
    fresh = "quatro palavras sem ligação 7"
    done = await desk.send(
        "/plataforma/acesso/senha", on="/plataforma/acesso", password=desk.password, new=fresh, again=fresh
    )
    assert done.status == 303, done.text[:300]
    await desk.opened("/plataforma/lojas")
    desk.password, desk.cookies = fresh, {}
    assert (await desk.sign_in()).status == 303
    assert ("password.changed", {}) in await audit_entries(cells, HOME, desk)


async def test_staff_of_one_cell_can_still_sign_in_to_it(cells: Cells) -> None:
    desk = await staff_of_cell(cells, ALA)
    assert cell_of_hex(desk.cookies[SESSION]) == ALA
    await desk.opened(f"/plataforma/lojas/{cells.merchants[ALA].account_id}")
    assert is_redirect_to_sign_in(await desk.send("/plataforma/sair", on="/plataforma"))


@pytest.mark.parametrize("path", ["/plataforma", "/plataforma/lojas", "/plataforma/relatorios"])
async def test_a_page_of_another_cell_costs_the_statements_of_one_at_home(cells: Cells, path: str) -> None:
    desk = await staff_of_cell(cells)
    counted = []
    for name in ("home", "bela"):
        await desk.choose(name)
        await desk.opened(path)
        with statements_run() as run:
            await desk.opened(path)
        counted.append({each: run[each] for each in ("session", "platform", "report")})
    assert counted[0] == counted[1]
    assert counted[0]["session"] == 1


async def test_an_unreachable_cell_is_reported_and_can_be_left(cells: Cells, second: EmbeddedPostgres) -> None:
    desk = await staff_of_cell(cells)
    await desk.choose("bela")
    second.stop()
    away = await desk.ask("GET", "/plataforma/lojas")
    assert (away.status, 'href="/plataforma/celula"' in away.html) == (503, True)
    page = await desk.opened("/plataforma/celula")
    refused = await desk.choose("cora")
    assert (refused.status, "A célula cora não responde" in refused.text) == (503, True)
    assert "Em uso" in page.text
    for name, number in (("ala", ALA), ("home", HOME)):
        assert (await desk.choose(name)).status == 303
        await desk.opened(f"/plataforma/lojas/{cells.merchants[number].account_id}")
    # A failed attempt does not change the current cell.
    assert (await desk.choose("bela")).status == 503
    assert "<option selected>home</option>" in (await desk.opened("/plataforma")).html
    second.restart()


async def test_while_home_is_unreachable_only_a_cells_own_staff_can_work(servers: Any) -> None:
    with second_server() as second:
        async with open_cells(servers, home_on=second) as cells:
            desk, theirs = await staff_of_cell(cells), await staff_of_cell(cells, ALA)
            await desk.choose("ala")
            second.stop()
            assert (await desk.ask("GET", "/plataforma/lojas")).status == 503
            await theirs.opened("/plataforma/lojas")
            second.restart()
