"""Signing in to the dashboard and out of it: passwords, throttle, sessions, form tokens, roles and the audit log."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from argon2 import PasswordHasher
from yarl import URL

from commands.merchants.merchants import MerchantCreated
from commands.people.attempts import ADDRESS_ATTEMPTS, EMAIL_ATTEMPTS, GAP_MAX, WINDOW, reset_attempts, take_attempt
from commands.people.sessions import IDLE, LIFETIME, SESSIONS_MAX
from domain.errors import Code, Refused
from runtime.passwords import hash_password, is_outdated
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.dashboard import (
    ENTRY,
    Clock,
    Person,
    Seen,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
    staff_in_browser,
)
from tests.support.pages import serving
from web.painel.route import EVERYBODY, Page
from web.painel.table import TABLE

NOBODY = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"


@pytest_asyncio.fixture(loop_scope="session")
async def address(pool: Pool, clock: Clock) -> AsyncIterator[str]:
    """A web application whose sign-in throttle has counted no attempt yet."""
    async with serving(pool, clock.now, settings_with()) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(pool: Pool) -> MerchantCreated:
    return await a_merchant(pool)


# Passwords


async def test_a_password_hashed_with_other_parameters_still_signs_in_and_is_hashed_anew(
    address: str, pool: Pool, merchant: MerchantCreated
) -> None:
    outdated = PasswordHasher(time_cost=1).hash("antiga senha boa")
    async with colleague_in_browser(pool, address, merchant, "support") as person:
        kept = "SELECT password_hash FROM dashboard_user WHERE email = $1"
        await pool.execute("UPDATE dashboard_user SET password_hash = $2 WHERE email = $1", person.email, outdated)
        await person.post("/painel/sair")
        assert (await person.sign_in("errada")).status == 403
        assert await pool.fetchval(kept, person.email) == outdated
        assert (await person.sign_in("antiga senha boa")).status == 303
        assert not is_outdated(await pool.fetchval(kept, person.email))
        await person.post("/painel/sair")
        assert (await person.sign_in("antiga senha boa")).status == 303


async def test_signing_in_leads_to_the_page_that_was_asked_for(address: str, merchant: MerchantCreated) -> None:
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        for odd in ("%0d%0aX-Evil:%201", "%ff", "é", "x" * 3000):
            away = await person.get(f"/painel/cobrancas/{odd}")
            assert (away.status, away.where, "X-Evil" in away.headers) == (303, ENTRY, False)
        turned_away = await person.get("/painel/extrato")
        assert (turned_away.status, turned_away.where) == (303, f"{ENTRY}?para=/painel/extrato")
        seen = await person.sign_in(where_to="/painel/extrato")
        assert (seen.status, seen.where) == (303, "/painel/extrato")
        page = await person.opened("/painel/extrato")
        assert merchant.name in page.text
        for odd in ("%0d%0aX-Evil:%201", "%ff", "é", "%2f%2fevil.example"):
            assert (await person.get(f"/painel/cobrancas/{odd}")).status == 404
        # Once signed in, a person is redirected away from the sign-in page.
        assert (await person.get(ENTRY)).where == "/painel"
        await person.post("/painel/sair")
        person.email = merchant.dashboard.email.upper() + " "
        assert (await person.sign_in()).where == "/painel"
        assert (await person.get("/painel")).status == 200


@pytest.mark.parametrize(
    "where_to",
    [
        "//evil.example",
        "https://evil.example",
        "/painel//evil.example",
        "/painel@evil.example",
        "/painel/../docs",
        "/v1",
    ],
)
async def test_signing_in_leads_to_a_page_of_the_dashboard_only(
    address: str, merchant: MerchantCreated, where_to: str
) -> None:
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        page = await person.get(ENTRY)
        fields = {"csrf": page.hidden()["csrf"], "email": person.email, "password": person.password, "para": where_to}
        seen = await person.ask("POST", ENTRY, data=fields)
        assert seen.status == 303
        assert re.fullmatch(r"/painel(/+[a-z.]+)?", seen.where), seen.where


async def test_a_wrong_password_and_an_unknown_e_mail_are_answered_alike(
    address: str, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        wrong = await person.sign_in("not it")
        person.email = "nobody@example.com"
        unknown = await person.sign_in()
        long = await person.sign_in("x" * 4000)
        person.email = "nobody\ud83d@\u0000example.com".encode("utf-8", "replace").decode()
        odd = await person.sign_in()
    assert wrong.status == unknown.status == long.status == 403
    assert odd.status in (400, 403)
    shown = [re.sub(r'value="[^"]*"', "", each.html) for each in (wrong, unknown, long)]
    assert shown[0] == shown[1] == shown[2]
    assert "E-mail ou senha incorretos." in wrong.text
    assert "not it" not in wrong.html


async def test_guesses_at_one_e_mail_are_refused_until_the_window_is_over(
    address: str, clock: Clock, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        page = await person.get(ENTRY)

        async def guess(password: str) -> Any:
            fields = {"csrf": page.hidden()["csrf"], "email": person.email, "password": password}
            return await person.ask("POST", ENTRY, data=fields)

        # Sent at once: an attempt is counted before its password is checked.
        guesses = await asyncio.gather(*(guess(f"guess {n}") for n in range(EMAIL_ATTEMPTS + 5)))
        assert sorted(each.status for each in guesses) == [403] * EMAIL_ATTEMPTS + [429] * 5
        right = await guess(person.password)
        assert right.status == 429
        assert 0 < int(right.headers["Retry-After"]) <= WINDOW.total_seconds() + 1
        clock.on(WINDOW + timedelta(seconds=1))
        page = await person.get(ENTRY)
        assert (await guess(person.password)).status == 303


@pytest.mark.parametrize("section", ["/painel", "/plataforma"])
async def test_guesses_from_many_addresses_do_not_lock_the_person_out(pool: Pool, clock: Clock, section: str) -> None:
    settings = settings_with(TRUSTED_PROXIES="127.0.0.0/8", STAFF_TOTP_REQUIRED="0")
    merchant = await a_merchant(pool)
    async with serving(pool, clock.now, settings) as address, AsyncExitStack() as opened:
        if section == "/painel":
            owner = await opened.enter_async_context(owner_in_browser(address, merchant, signed_in=False))
        else:
            owner = await opened.enter_async_context(staff_in_browser(pool, address, signed_in=False))
        entry, number = f"{section}/entrar", itertools.count(1)

        async def try_password(password: str, client: str, browser: Person) -> Seen:
            headers = {"X-Forwarded-For": client}
            page = await browser.ask("GET", entry, headers=headers)
            fields = {"csrf": page.hidden()["csrf"], "email": owner.email, "password": password}
            return await browser.ask("POST", entry, data=fields, headers=headers)

        async def stranger(password: str = "guess") -> Seen:  # noqa: S107 - a wrong one
            browser = Person(address, "", "")
            try:
                return await try_password(password, f"203.0.113.{next(number)}", browser)
            finally:
                await browser.http.close()

        clock.on(-timedelta(hours=2))  # so that later tests find their own entries first in the staff's log
        first = await try_password(owner.password, "198.51.100.1", owner)
        assert first.status == 303
        await owner.post(f"{section}/sair")
        for _ in range(EMAIL_ATTEMPTS):
            assert (await stranger()).status == 403
        # From now on passwords are checked one at a time, at growing intervals.
        waits = []
        for _ in range(9):
            refused = await stranger()
            assert refused.status == 429
            waits.append(int(refused.headers["Retry-After"]))
            clock.on(timedelta(seconds=waits[-1]))
            assert (await stranger()).status == 403
        assert waits == sorted(waits)
        assert waits[0] <= 2
        assert waits[-1] <= GAP_MAX.total_seconds() + 1
        # Attempts made too early do not lengthen the wait of the right password.
        for _ in range(20):
            assert (await stranger(owner.password)).status == 429
        # A known browser does not wait: its owner signs in and out as usual.
        for _ in range(3):
            assert (await try_password(owner.password, "198.51.100.1", owner)).status == 303
            await owner.post(f"{section}/sair")
        assert (await stranger()).status == 429
        clock.on(GAP_MAX + timedelta(seconds=1))
        assert (await stranger(owner.password)).status == 303
        # Guesses in the known browser are throttled too.
        statuses = [(await try_password("guess", f"192.0.2.{n}", owner)).status for n in range(EMAIL_ATTEMPTS + 1)]
        assert statuses == [403] * EMAIL_ATTEMPTS + [429]


async def test_a_browser_is_known_per_person_until_the_password_changes(
    address: str, pool: Pool, merchant: MerchantCreated
) -> None:
    async with colleague_in_browser(pool, address, merchant, "support") as person:
        before = await pool.fetchval("SELECT count(*) FROM mail WHERE kind = 'security'")
        jar = {each.key: each.value for each in person.http.cookie_jar}
        device = jar["aparelho"]
        assert person.email not in device
        await person.post("/painel/sair")
        assert (await person.sign_in()).status == 303
        assert await pool.fetchval("SELECT count(*) FROM mail WHERE kind = 'security'") == before
        # The password is changed elsewhere.
        fresh = hash_password("outra senha boa")
        await pool.execute("UPDATE dashboard_user SET password_hash = $2 WHERE email = $1", person.email, fresh)
        await person.post("/painel/sair")
        assert (await person.sign_in("outra senha boa")).status == 303
        assert await pool.fetchval("SELECT count(*) FROM mail WHERE kind = 'security'") == before + 1
        # A forged cookie does not make a browser known.
        for forged in ("x", "0" * 32, f"{'0' * 32}.{'0' * 32}", device[:32] + ".", device + ".x"):
            async with owner_in_browser(address, merchant, signed_in=False) as owner:
                owner.http.cookie_jar.update_cookies({"aparelho": forged}, URL(address))
                assert (await owner.sign_in()).status == 303
                before += 1
        assert await pool.fetchval("SELECT count(*) FROM mail WHERE kind = 'security'") == before + 1


async def test_guesses_from_one_address_are_limited_whatever_the_e_mail(pool: Pool) -> None:
    seal, now = Seal(settings_with().secret_key), datetime.now(UTC)
    async with pool.acquire() as conn:
        for number in range(ADDRESS_ATTEMPTS):
            # The IPv6 addresses of one customer (one /64 network) count as one address.
            await take_attempt(conn, f"{number}@example.com", f"2001:db8:1:2::{number:x}", now=now, seal=seal)
        kept = await conn.fetchval("SELECT count(*) FROM sign_in_attempt")
        with pytest.raises(Refused) as refused:
            await take_attempt(conn, "another@example.com", "2001:db8:1:2:ffff::1", now=now, seal=seal)
        assert refused.value.code is Code.RATE_LIMITED
        assert await conn.fetchval("SELECT count(*) FROM sign_in_attempt") == kept, (
            "a refused attempt stores no row for its e-mail"
        )
        await take_attempt(conn, "another@example.com", "2001:db8:1:3::1", now=now, seal=seal)
        await take_attempt(conn, "another@example.com", "192.0.2.1", now=now + WINDOW, seal=seal)


async def test_a_right_password_returns_its_attempt_to_the_address_except_in_a_known_browser(
    pool: Pool,
) -> None:
    seal, now, address = Seal(settings_with().secret_key), datetime.now(UTC), "192.0.2.7"
    async with pool.acquire() as conn:
        for number in range(ADDRESS_ATTEMPTS + 1):
            await take_attempt(conn, f"right-{number}@example.com", address, now=now, seal=seal)
            await reset_attempts(conn, f"right-{number}@example.com", address, seal=seal)
        for number in range(ADDRESS_ATTEMPTS):
            await take_attempt(conn, f"wrong-{number}@example.com", address, now=now, seal=seal)
        # Otherwise an account holder could guess without end between two sign-ins of their own.
        await take_attempt(conn, "known@example.com", address, now=now, seal=seal, device="known")
        await reset_attempts(conn, "known@example.com", address, seal=seal, device="known")
        with pytest.raises(Refused):
            await take_attempt(conn, "another@example.com", address, now=now, seal=seal)


async def test_the_wait_of_an_e_mail_doubles_and_attempts_refused_meanwhile_do_not_count(pool: Pool) -> None:
    seal, now, email = Seal(settings_with().secret_key), datetime.now(UTC), "guessed@example.com"
    strangers = (f"198.51.{number // 256}.{number % 256}" for number in itertools.count())
    async with pool.acquire() as conn:

        async def wait_answered(address: str) -> int | None:
            """The wait that an attempt is answered with; None when its password is checked."""
            try:
                await take_attempt(conn, email, address, now=now, seal=seal)
            except Refused as refused:
                return refused.retry_after_s
            return None

        began = now
        assert [await wait_answered(next(strangers)) for _ in range(EMAIL_ATTEMPTS)] == [None] * EMAIL_ATTEMPTS
        for wait_s in (1, 2, 4, 8, 16, 32, 60, 60):
            assert await wait_answered(next(strangers)) == wait_s + 1
            now += timedelta(seconds=wait_s)
            assert await wait_answered(next(strangers)) is None
        for _ in range(ADDRESS_ATTEMPTS + 1):
            assert await wait_answered("203.0.113.77") == 61
        now += GAP_MAX
        assert await wait_answered("203.0.113.77") is None
        # The window of an e-mail, a quarter of an hour, begins with the latest attempt.
        now += WINDOW - timedelta(seconds=1)
        assert now - began > WINDOW
        assert [await wait_answered(next(strangers)) for _ in range(2)] == [None, 61]
        now += WINDOW
        assert [await wait_answered("192.0.2.99") for _ in range(EMAIL_ATTEMPTS)] == [None] * EMAIL_ATTEMPTS
        # The window of an address begins with its first attempt: further attempts do not prolong it.
        now += timedelta(minutes=10)
        assert await wait_answered("192.0.2.99") == 301
        now += timedelta(minutes=5)
        assert await wait_answered("192.0.2.99") is None


async def test_repeated_sign_ins_with_the_right_password_are_never_throttled(
    address: str, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        for _ in range(EMAIL_ATTEMPTS + 2):
            person.http.cookie_jar.clear()
            assert (await person.sign_in()).status == 303


async def test_the_throttle_deletes_expired_attempts(pool: Pool) -> None:
    seal, now = Seal(settings_with().secret_key), datetime.now(UTC) + timedelta(days=400)
    async with pool.acquire() as conn:
        for number in range(60):
            at = now + number * (WINDOW + timedelta(seconds=1))
            await take_attempt(conn, f"{number}@example.com", f"192.0.2.{number}", now=at, seal=seal)
        kept = await conn.fetchval("SELECT count(*) FROM sign_in_attempt WHERE until > $1", now)
    assert kept <= 4


# Sessions


async def test_no_stored_row_contains_the_session_cookie_and_the_cookie_is_http_only(
    address: str, pool: Pool, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        seen = await person.sign_in()
        cookie = person.cookie()
        assert len(bytes.fromhex(cookie)) == 32
        stored = await pool.fetch("SELECT * FROM dashboard_session WHERE email = $1", person.email)
        assert stored
        assert all(cookie not in str(row) and bytes.fromhex(cookie) not in row.values() for row in stored)
    (told,) = [each for each in seen.headers.getall("Set-Cookie") if each.startswith("painel=")]
    assert "HttpOnly" in told
    assert "SameSite=lax" in told
    assert "Path=/" in told
    assert "Secure" not in told
    assert "Domain" not in told


async def test_over_tls_the_cookie_is_secure_and_bound_to_the_host(pool: Pool, merchant: MerchantCreated) -> None:
    settings = settings_with(APP_URL="https://pay.example.com")
    async with (
        serving(pool, lambda: datetime.now(UTC), settings) as address,
        owner_in_browser(address, merchant, signed_in=False) as person,
    ):
        seen = await person.get(ENTRY)
    (told,) = seen.headers.getall("Set-Cookie")
    assert told.startswith("__Host-entrada=")
    assert "Secure" in told
    assert "max-age=" in seen.headers["Strict-Transport-Security"]


async def test_signing_out_ends_the_session_and_not_only_the_cookie(address: str, merchant: MerchantCreated) -> None:
    async with owner_in_browser(address, merchant) as person:
        cookie = person.cookie()
        seen = await person.post("/painel/sair")
        assert (seen.status, seen.where) == (303, f"{ENTRY}?saiu=1")
        assert person.cookie() == ""
        again = await person.ask("GET", "/painel", headers={"Cookie": f"painel={cookie}"})
        assert again.status == 303


async def test_signing_out_everywhere_ends_every_session_of_the_person_and_no_other(
    address: str, pool: Pool, merchant: MerchantCreated
) -> None:
    async with (
        owner_in_browser(address, merchant) as here,
        owner_in_browser(address, merchant) as there,
        colleague_in_browser(pool, address, merchant, "finance") as colleague,
    ):
        assert (await here.post("/painel/sair-de-tudo")).status == 303
        assert (await here.get("/painel")).status == 303
        assert (await there.get("/painel")).status == 303
        assert (await colleague.get("/painel")).status == 200


async def test_a_session_ends_after_twelve_idle_hours_or_after_seven_days(
    address: str, clock: Clock, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person:
        used = timedelta(0)
        while used < LIFETIME - IDLE:
            clock.on(IDLE - timedelta(minutes=1))
            used += IDLE - timedelta(minutes=1)
            assert (await person.get("/painel/acesso")).status == 200, used
        clock.on(LIFETIME - used + timedelta(seconds=1))
        assert (await person.get("/painel/acesso")).status == 303
    async with owner_in_browser(address, merchant) as person:
        clock.on(IDLE + timedelta(seconds=1))
        assert (await person.get("/painel/acesso")).status == 303


async def test_a_person_has_a_bounded_number_of_sessions_and_a_new_one_ends_the_oldest(
    address: str, clock: Clock, pool: Pool
) -> None:
    merchant = await a_merchant(pool)
    async with (
        owner_in_browser(address, merchant) as first,
        owner_in_browser(address, merchant, signed_in=False) as person,
    ):
        for _ in range(SESSIONS_MAX):
            clock.on(timedelta(seconds=1))
            person.http.cookie_jar.clear()
            assert (await person.sign_in()).status == 303
        assert (await first.get("/painel")).status == 303
        assert (await person.get("/painel")).status == 200
    count = await pool.fetchval("SELECT count(*) FROM dashboard_session WHERE email = $1", merchant.dashboard.email)
    assert count == SESSIONS_MAX


@pytest.mark.parametrize("cookie", ["", "x", "0" * 64, "0" * 63 + "g", "A" * 64, "0" * 5000])
async def test_an_invalid_session_cookie_is_redirected_to_the_sign_in_page(
    address: str, merchant: MerchantCreated, cookie: str
) -> None:
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        seen = await person.ask("GET", "/painel", headers={"Cookie": f"painel={cookie}"})
        assert (seen.status, seen.where) == (303, f"{ENTRY}?para=/painel")


# Forms


async def test_a_form_is_accepted_only_in_the_session_it_was_shown_in(
    address: str, pool: Pool, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person, owner_in_browser(address, merchant) as elsewhere:
        mine, other = await person.opened("/painel/tokens"), await elsewhere.opened("/painel/tokens")
        fields = {"name": "Loja", "scope": "charges:read", "once": NOBODY}
        path = "/painel/tokens"
        for given in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": other.hidden()["csrf"]}, {"csrf": "é"}):
            refused = await person.ask("POST", path, data={**fields, **given})
            assert refused.status == 403, given
            assert "Formulário de outra sessão" in refused.text
        token = {"csrf": mine.hidden()["csrf"]}
        for site in ("cross-site", "same-site", "none"):
            refused = await person.ask("POST", path, data={**fields, **token}, headers={"Sec-Fetch-Site": site})
            assert refused.status == 403, site
        for body in (b"{}", b"\xff\xfe"):
            refused = await person.ask("POST", path, data=body, headers={"Content-Type": "application/json"})
            assert refused.status == 400
        assert (
            await person.ask(
                "POST",
                path,
                data=f"csrf={token['csrf']}&name=%00".encode(),
                headers={"Content-Type": "application/x-www-form-urlencoded"},
            )
        ).status == 400
        assert (await person.ask("POST", path, data={**fields, **token, "name": "x" * 70_000})).status == 413
        assert len(await _credentials(pool, merchant)) == 2
        done = await person.ask(
            "POST",
            path,
            data={**fields, **token, "once": mine.hidden()["once"]},
            headers={"Sec-Fetch-Site": "same-origin"},
        )
        assert done.status == 200
        assert len(await _credentials(pool, merchant)) == 3


async def test_a_form_token_of_another_session_cannot_sign_a_browser_in(
    address: str, merchant: MerchantCreated
) -> None:
    async with (
        owner_in_browser(address, merchant, signed_in=False) as person,
        owner_in_browser(address, merchant) as attacker,
    ):
        attackers_form = await attacker.get("/painel/acesso")
        fields = {"email": person.email, "password": person.password, "csrf": attackers_form.hidden()["csrf"]}
        refused = await person.ask("POST", ENTRY, data=fields)
        assert refused.status == 403
        assert person.cookie() == ""


async def test_a_form_sent_five_times_acts_once(address: str, pool: Pool) -> None:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as person:
        page = await person.opened("/painel/tokens")
        twice = [person.post("/painel/tokens", form=page, name="Loja", scope="charges:read") for _ in range(5)]
        answers = await asyncio.gather(*twice)
        assert sorted(each.status for each in answers) == [200, 409, 409, 409, 409]
        assert len(await _credentials(pool, merchant)) == 3


async def test_every_page_has_the_security_headers_and_no_inline_script_or_style(
    address: str, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person:
        for page in [await person.get("/painel/tokens"), await person.get("/painel")]:
            policy = dict(part.strip().split(" ", 1) for part in page.headers["Content-Security-Policy"].split(";"))
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
            assert policy["frame-ancestors"] == "'none'"
            assert page.headers["Cache-Control"] == "no-store"
            assert page.headers["X-Content-Type-Options"] == "nosniff"
            assert page.headers["Referrer-Policy"] == "same-origin"
            assert "noindex" in page.headers["X-Robots-Tag"]
            # No inline script or style, and no script from another path.
            assert not re.search(r"<script(?![^>]* src=\"/static/)", page.html)
            assert not re.search(r' style="| on[a-z]+="', page.html)


# Roles


def _path_with_ids(page: Page) -> str:
    return re.sub(r"\{[^}]*\}", NOBODY, page.whole_path)


@pytest.mark.parametrize("role", sorted(EVERYBODY))
async def test_each_role_opens_only_the_pages_that_the_table_allows(
    address: str, pool: Pool, merchant: MerchantCreated, role: str
) -> None:
    async with colleague_in_browser(pool, address, merchant, role) as person:
        form = await person.opened("/painel/acesso")
        for page in TABLE:
            path = _path_with_ids(page)
            if page.method == "GET":
                seen = await person.get(path)
                allowed = 404 if NOBODY in path else 200
                assert seen.status == (allowed if role in page.roles else 403), path
            elif role not in page.roles:
                assert (await person.post(path, form=form)).status == 403, path
        # Pages that a person may not open are not linked either.
        links = set(re.findall(r'<a href="(/painel[^"?]*)"', (await person.opened("/painel")).html))
        closed = {page.whole_path for page in TABLE if page.method == "GET" and role not in page.roles}
        assert not links & closed


async def test_no_page_of_the_table_opens_without_signing_in(address: str, merchant: MerchantCreated) -> None:
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        for page in TABLE:
            seen = await person.ask(page.method, _path_with_ids(page))
            assert seen.status == 303, page
            assert seen.where.startswith(ENTRY)
        assert (await person.get("/painel/nada")).status == 404
    assert all("owner" in page.roles for page in TABLE)


async def test_a_removed_role_or_person_loses_access_with_the_next_page(
    address: str, pool: Pool, merchant: MerchantCreated
) -> None:
    async with colleague_in_browser(pool, address, merchant, "finance") as person:
        assert (await person.get("/painel/extrato")).status == 200
        await pool.execute("UPDATE dashboard_user SET role = 'support' WHERE email = $1", person.email)
        assert (await person.get("/painel/extrato")).status == 403
        await pool.execute("DELETE FROM dashboard_user WHERE email = $1", person.email)
        assert (await person.get("/painel")).status == 303


# The audit log


async def test_the_audit_log_records_who_did_what_when_and_from_where_and_cannot_be_changed(
    address: str, pool: Pool, table_owner: Pool
) -> None:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as person:
        await person.post("/painel/tokens", name="ERP", scope=["charges:read"])
        page = await person.opened("/painel/auditoria")
        assert "Criou uma credencial ERP" in page.text
        assert "Entrou no painel" in page.text
        assert person.email in page.text
    rows = await pool.fetch("SELECT * FROM audit WHERE account_id = $1 ORDER BY at", merchant.account_id)
    assert [row["action"] for row in rows] == ["session.opened", "credential.created"]
    assert all(len(row["address_hash"]) == 32 and "127.0.0.1" not in str(row) for row in rows)
    for change in ("UPDATE audit SET email = 'x'", "DELETE FROM audit", "TRUNCATE audit"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await pool.execute(change)
        with pytest.raises(asyncpg.RaiseError, match="append only"):
            await table_owner.execute(change)


async def _credentials(pool: Pool, merchant: MerchantCreated) -> list[Any]:
    return list(await pool.fetch("SELECT * FROM credential WHERE account_id = $1", merchant.account_id))
