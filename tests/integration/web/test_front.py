"""The first page of the host, robots.txt, and what public pages say about themselves."""

import httpx
from litestar.testing import AsyncTestClient

from runtime.postgres import Pool
from tests.support.dashboard import settings_with
from tests.support.system import System
from web.app import make_app


def test_the_first_page_of_the_host_links_to_dashboard_and_documentation(system: System) -> None:
    answer = httpx.get(f"{system.base_url}/", timeout=30)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert 'href="/painel"' in answer.text
    assert f'href="{system.docs_url}"' in answer.text
    assert httpx.head(f"{system.base_url}/", timeout=30).status_code == 200
    assert httpx.get(system.docs_url, follow_redirects=True, timeout=30).status_code == 200
    assert httpx.get(f"{system.base_url}/painel", follow_redirects=True, timeout=30).status_code == 200


def test_robots_txt_allows_the_documentation_and_disallows_the_rest(system: System) -> None:
    answer = httpx.get(f"{system.base_url}/robots.txt", timeout=30)
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.splitlines()[-1] == "Disallow: /"
    assert "Allow: /docs" in answer.text
    # The header agrees with the file: a page that the file allows is not hidden by the header.
    for path, hidden in (("/", False), ("/docs", False), ("/painel/entrar", True), ("/robots.txt", True)):
        assert (
            "x-robots-tag" in httpx.get(f"{system.base_url}{path}", follow_redirects=True, timeout=30).headers
        ) == hidden, path


def test_public_pages_have_one_description_for_search_engines(system: System) -> None:
    for path in ("/", "/docs", "/docs/pt", "/docs/webhooks", "/painel/entrar"):
        html = httpx.get(f"{system.base_url}{path}", follow_redirects=True, timeout=30).text
        assert html.count('<meta name="description" content="') == 1, path


async def test_the_support_contact_is_shown_where_it_is_set(pool: Pool) -> None:
    for contact, shown in (
        ("ajuda@example.com", 'href="mailto:ajuda@example.com"'),
        ("https://ajuda.example.com", 'href="https://ajuda.example.com"'),
        ("(11) 4000-0000", "Suporte: (11) 4000-0000"),
    ):
        async with AsyncTestClient(make_app(settings_with(SUPPORT_CONTACT=contact), pool=pool)) as client:
            assert shown in (await client.get("/")).text
