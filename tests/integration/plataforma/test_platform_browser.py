"""The staff's section and the pages about people in a real browser: readable, labelled, and fitting the screen."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from domain.instants import SAO_PAULO
from runtime.postgres import Pool
from tests.integration.painel.test_dashboard_browser import _CONTRAST, _HEADINGS, _SMALL, _UNNAMED, LONG, screen
from tests.integration.plataforma.test_held_refunds_page import SETTINGS, held_refund
from tests.support.browser import CHROMIUM
from tests.support.dashboard import a_merchant, owner_in_browser, staff_in_browser
from tests.support.pages import serving, tab, until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser on this machine")

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def test_every_page_of_people_and_staff_fits_the_screen_with_contrast_labels_and_headings(
    pool: Pool, servers: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    merchant = await a_merchant(pool, LONG)
    await pool.execute(
        "INSERT INTO request_log (account_id, test, at, request_id, client_id, method, path, status, code, duration_us)"
        " VALUES ($1, false, now(), 'req_' || $2, $2, 'POST', '/v1/charges/' || repeat('x', 188), 503,"
        " 'IDEMPOTENCY_KEY_REQUIRED', 123456789)",
        merchant.account_id, merchant.production.client_id,
    )  # fmt: skip
    suspense_id = await pool.fetchval(
        "INSERT INTO suspense (suspense_id, bank, kind, source, reference, amount_cents, received_at, found_at)"
        " VALUES (gen_random_uuid(), '001', 'pix_unknown_txid', 'E' || md5($1), repeat('x', 35), 9999999999, now(),"
        " now()) RETURNING suspense_id",
        str(merchant.account_id),
    )
    held = await held_refund(pool, servers)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
        staff_in_browser(pool, address) as staff,
        tab(tmp_path_factory.mktemp("profile")) as (command, evaluate),
    ):
        today = datetime.now(SAO_PAULO).date()
        settled = f"?conta={merchant.account_id}&de={today}&ate={today}"
        pages = [
            "/painel/acesso", "/painel/acesso/codigo", "/painel/pessoas", "/painel/requisicoes",
            f"/painel/requisicoes/req_{merchant.production.client_id}", "/plataforma", "/plataforma/lojas",
            f"/plataforma/lojas/{merchant.account_id}", "/plataforma/parceiros", "/plataforma/relatorios",
            "/plataforma/relatorios/receipts", f"/plataforma/relatorios/settlement{settled}", "/plataforma/equipe",
            "/plataforma/auditoria", "/plataforma/acesso/codigo", "/plataforma/a-identificar",
            f"/plataforma/a-identificar/{suspense_id}", "/plataforma/devolucoes", held.page,
            "/plataforma/pendencias", "/plataforma/divergencias", "/plataforma/banco", "/painel/empresa",
            "/plataforma/lojas/nova", f"/plataforma/lojas/{merchant.account_id}/dados",
            "/painel/recuperar", "/painel/recuperar/nothing", f"/plataforma/lojas/{merchant.account_id}/pagador",
        ]  # fmt: skip
        await owner.post(
            "/painel/pessoas", on="/painel/pessoas", name="N" * 100, email=f"{'e' * 60}@example.com", role="support"
        )
        await pool.execute("UPDATE account SET kyc = 'rejected', kyc_reason = repeat('x', 500), address = NULL"
                           " WHERE account_id = $1", merchant.account_id)  # fmt: skip
        await command("Network.enable")
        for person in (owner, staff):
            cookie = {"name": person.root[1:], "value": person.cookie()}
            await command("Network.setCookie", url=address, httpOnly=True, **cookie)
        for path in pages:
            await command("Page.navigate", url=address + path)
            shown = path.partition("?")[0]
            await until(evaluate, "location.pathname + document.readyState", f"{shown}complete")
            for width in (320, 390, 1440):
                await screen(command, width, "light")
                assert await evaluate(WIDER) == 0, (path, width)
            await evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            for width, scheme in ((320, "light"), (390, "dark"), (1440, "light")):
                await screen(command, width, scheme)
                assert await evaluate(WIDER) == 0, (path, width, "unfolded")
                for looked in (_CONTRAST, _UNNAMED, _SMALL):
                    assert await evaluate(looked) == "", (path, width, scheme)
                levels: list[int] = await evaluate(_HEADINGS)
                assert levels[0] == 1, path
                assert levels.count(1) == 1, path
                assert all(after - before <= 1 for before, after in pairwise(levels)), (path, levels)
