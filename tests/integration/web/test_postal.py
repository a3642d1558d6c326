"""The address of a postal code comes from the service that the operator sets, and forms work without the service."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from runtime.postgres import Pool
from runtime.settings import read_settings
from tests.support.browser import CHROMIUM
from tests.support.dashboard import a_merchant, owner_in_browser, settings_with
from tests.support.listening import listening
from tests.support.pages import serving, tab, until
from web.postal import PostalAddress, PostalCodes, PostalServiceAway

PAULISTA = PostalAddress("Avenida Paulista", "Bela Vista", "São Paulo", "SP")
VIA_CEP = {"cep": "01310-100", "logradouro": "Avenida Paulista", "bairro": "Bela Vista", "localidade": "São Paulo"}
BRASIL_API = {"street": "Avenida Paulista", "neighborhood": "Bela Vista", "city": "São Paulo", "state": "SP"}


class PostalService:
    """A postal service on a real socket: `says` has the answers by digits; other digits answer 404."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}
        self.asked: Counter[str] = Counter()
        self.slow = asyncio.Event()
        self.slow.set()
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        digits = request.match_info["cep"]
        self.asked[digits] += 1
        await self.slow.wait()
        said = self.says.get(digits)
        if isinstance(said, web.Response):
            return said
        if said is None:
            return web.Response(status=404)
        return web.Response(body=msgspec.json.encode(said), content_type="application/json")


@pytest_asyncio.fixture
async def service() -> AsyncIterator[PostalService]:
    playing = PostalService()
    app = web.Application()
    app.router.add_get("/ws/{cep}/json/", playing.answer)
    async with listening(app) as url:
        playing.url = f"{url}/ws/{{cep}}/json/"
        yield playing
        playing.slow.set()


@pytest_asyncio.fixture
async def codes(service: PostalService) -> AsyncIterator[PostalCodes]:
    made = PostalCodes(service.url)
    yield made
    await made.close()


@pytest.mark.parametrize("said", [{**VIA_CEP, "uf": "SP"}, BRASIL_API])
async def test_both_forms_of_answers_are_understood(service: PostalService, codes: PostalCodes, said: Any) -> None:
    service.says["01310100"] = said
    assert await codes.find("01310100") == PAULISTA


async def test_an_answer_is_cached_for_a_day(service: PostalService) -> None:
    now = 0.0
    codes = PostalCodes(service.url, clock=lambda: now)
    service.says["01310100"] = BRASIL_API
    for _ in range(3):
        assert await codes.find("01310100") == PAULISTA
        assert await codes.find("99999999") is None
    assert service.asked == {"01310100": 1, "99999999": 1}
    now = 86_401.0
    assert await codes.find("01310100") == PAULISTA
    assert service.asked["01310100"] == 2
    await codes.close()


async def test_an_unknown_postal_code_has_no_address(service: PostalService, codes: PostalCodes) -> None:
    service.says["00000001"] = {"erro": "true"}
    assert await codes.find("00000001") is None
    assert await codes.find("00000002") is None


@pytest.mark.parametrize(
    "said",
    [
        {"localidade": "São Paulo"}, {"uf": "SP"}, {"localidade": 5, "uf": "SP"}, [], "x",
        web.Response(status=500), web.Response(status=302, headers={"location": "http://127.0.0.1:1/"}),
        web.Response(body=b"{", content_type="application/json"), web.Response(body=b"\xff" * 5),
        web.Response(body=b" " * 20_000 + b"{}"),
    ],
)  # fmt: skip
async def test_an_invalid_answer_counts_as_an_absent_service(
    service: PostalService, codes: PostalCodes, said: Any
) -> None:
    service.says["01310100"] = said
    with pytest.raises(PostalServiceAway):
        await codes.find("01310100")
    service.says["01310100"] = BRASIL_API
    assert await codes.find("01310100") == PAULISTA, "a failure is not cached"


async def test_few_requests_wait_for_a_service_that_does_not_answer(
    service: PostalService, codes: PostalCodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.postal.ANSWER_S", 0.3)
    service.slow.clear()
    found = await asyncio.gather(*(codes.find(f"{n:08}") for n in range(50)), return_exceptions=True)
    assert {type(each) for each in found} == {PostalServiceAway}
    assert sum(service.asked.values()) <= 8


def test_a_cep_url_that_is_no_template_is_refused() -> None:
    given = {"DATABASE_URL": "postgresql://x", "REDIS_URL": "redis://x", "SECRET_KEY": "5e" * 32}
    assert read_settings(given).cep_url == ""
    for wrong in ("https://example.com/", "ftp://example.com/{cep}", "example.com/{cep}"):
        with pytest.raises(ValueError, match="CEP_URL"):
            read_settings({**given, "CEP_URL": wrong})


# In the dashboard


async def test_only_signed_in_people_get_the_address_of_a_postal_code(pool: Pool, service: PostalService) -> None:
    service.says["01310100"] = BRASIL_API
    service.says["01310101"] = web.Response(status=500)
    merchant = await a_merchant(pool)
    settings = settings_with(CEP_URL=service.url)
    async with (
        serving(pool, lambda: datetime.now(UTC), settings) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        found = await owner.get("/painel/cep/01310100")
        assert (found.status, msgspec.json.decode(found.html, type=PostalAddress)) == (200, PAULISTA)
        for digits, status in (("99999999", 404), ("0131010", 404), ("01310-100", 404), ("01310101", 503)):
            assert (await owner.get(f"/painel/cep/{digits}")).status == status, digits
        assert set(service.asked) == {"01310100", "99999999", "01310101"}
        assert 'data-cep="/painel/cep/"' in (await owner.opened("/painel/cobrancas/nova?forma=boleto")).html
        await owner.post("/painel/sair", on="/painel/acesso")
        assert (await owner.get("/painel/cep/01310100")).status == 303, "a signed-out visitor is redirected"


async def test_without_the_setting_no_service_is_asked(pool: Pool) -> None:
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), settings_with()) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        assert (await owner.get("/painel/cep/01310100")).status == 404
        assert "data-cep" not in (await owner.opened("/painel/cobrancas/nova?forma=boleto")).html


@pytest.mark.skipif(CHROMIUM is None, reason="no browser on this machine")
async def test_the_browser_fills_in_empty_fields_only(pool: Pool, service: PostalService, tmp_path: Path) -> None:
    service.says["01310100"] = {**VIA_CEP, "uf": "SP"}
    merchant = await a_merchant(pool)
    settings = settings_with(CEP_URL=service.url)
    async with (
        serving(pool, lambda: datetime.now(UTC), settings) as address,
        owner_in_browser(address, merchant) as owner,
        tab(tmp_path) as (command, evaluate),
    ):
        await command("Network.enable")
        await command("Network.setCookie", url=address, name="painel", value=owner.cookie(), httpOnly=True)
        await command("Page.navigate", url=f"{address}/painel/cobrancas/nova?forma=boleto")
        await until(evaluate, "location.pathname + document.readyState", "/painel/cobrancas/novacomplete")
        type_in = """
        (() => {{
          const form = document.querySelector("[data-cep]").closest("form"), zip = form.elements.zip_code;
          form.elements.city.value = {city!r};
          zip.value = {zip!r};
          zip.dispatchEvent(new Event("change"));
        }})()
        """
        shown = """
        (() => {
          const form = document.querySelector("[data-cep]").closest("form").elements;
          return [form.street.value, form.city.value, form.state.value].join("|");
        })()
        """
        said = 'document.querySelector("[data-cep]").textContent'
        await evaluate(type_in.format(city="Sampa", zip="01310-100"))
        await until(evaluate, said, "Endereço preenchido pelo CEP. Confira o número.")
        assert await evaluate(shown) == "Avenida Paulista|Sampa|SP", "the typed city stays"
        await evaluate(type_in.format(city="Sampa", zip="99999-999"))
        await until(evaluate, said, "CEP não encontrado. Confira, ou preencha o endereço.")
