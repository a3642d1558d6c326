"""A person is mailed about a sign-in from a new browser or place, and about changes to the person's own access."""

import re
from base64 import b32decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio

from commands.mail import address_hash
from commands.people.places import PLACES_MAX, REMEMBERED, place_of, remember_place
from commands.people.tell import SecurityMail
from domain.totp import STEP_S, code_at, step_at
from runtime.postgres import Pool
from runtime.seal import MAIL_NOTE, Seal
from tests.support.dashboard import Clock, Person, Seen, a_merchant, owner_in_browser, settings_with, staff_in_browser
from tests.support.pages import serving

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0", TRUSTED_PROXIES="127.0.0.0/8")
SEAL = Seal(SETTINGS.secret_key)
FRESH = "quatro palavras sem ligação"


class Site(NamedTuple):
    pool: Pool
    clock: Clock
    address: str

    async def security_mails(self, person: Person) -> list[tuple[str, str]]:
        """Kind and address of the security mails to this person, the oldest first."""
        rows = await self.pool.fetch(
            "SELECT mail_id, note_sealed FROM mail WHERE kind = 'security' AND to_hash = $1"
            " ORDER BY created_at, mail_id",
            address_hash(person.email, SEAL),
        )
        notes = [
            msgspec.json.decode(SEAL.open(row["note_sealed"], MAIL_NOTE, row["mail_id"]), type=SecurityMail)
            for row in rows
        ]
        return [(note.kind, note.facts.get("from", "")) for note in notes]


@pytest_asyncio.fixture(loop_scope="session")
async def site(pool: Pool) -> AsyncIterator[Site]:
    clock = Clock()
    async with serving(pool, clock.now, SETTINGS) as address:
        yield Site(pool, clock, address)


@asynccontextmanager
async def signed_out_person(site: Site, section: str) -> AsyncIterator[Person]:
    if section == "/plataforma":
        async with staff_in_browser(site.pool, site.address, signed_in=False) as person:
            yield person
    else:
        async with owner_in_browser(site.address, await a_merchant(site.pool), signed_in=False) as person:
            yield person


async def sign_in_and_out(person: Person, client: str) -> None:
    """Sign in from this client address, then sign out."""
    entry, headers = f"{person.root}/entrar", {"X-Forwarded-For": client}
    page = await person.ask("GET", entry, headers=headers)
    fields = {"csrf": page.hidden()["csrf"], "email": person.email, "password": person.password}
    seen: Seen = await person.ask("POST", entry, data=fields, headers=headers)
    assert seen.status == 303, seen.text[:300]
    assert (await person.post(f"{person.root}/sair")).status == 303


@pytest.mark.parametrize("section", ["/painel", "/plataforma"])
async def test_a_sign_in_with_a_known_browser_from_a_new_network_is_mailed_once(site: Site, section: str) -> None:
    async with signed_out_person(site, section) as person:
        # The browser is unknown at first, then known; another address of the same city is the same place.
        for client in ("203.0.113.7", "203.0.113.7", "203.0.200.1"):
            await sign_in_and_out(person, client)
        assert await site.security_mails(person) == [("session.new_device", "203.0.113.7")]
        await sign_in_and_out(person, "198.51.100.1")
        await sign_in_and_out(person, "198.51.100.9")
        await sign_in_and_out(person, "203.0.113.7")
        assert (await site.security_mails(person))[1:] == [("session.new_place", "198.51.100.1")]
        # Another browser is mailed once, as a new browser and not as a new place.
        person.http.cookie_jar.clear()
        await sign_in_and_out(person, "2001:db8::1")
        assert (await site.security_mails(person))[2:] == [("session.new_device", "2001:db8::1")]
        await sign_in_and_out(person, "2001:db8:ffff::1")
        assert len(await site.security_mails(person)) == 3


@pytest.mark.parametrize("section", ["/painel", "/plataforma"])
async def test_a_person_is_mailed_about_a_new_password_and_the_second_factor_turned_on_or_off(
    site: Site, section: str
) -> None:
    async with signed_out_person(site, section) as person:
        assert (await person.sign_in()).status == 303
        path, factor = f"{section}/acesso", f"{section}/acesso/codigo"
        fields: dict[str, Any] = {"new": FRESH, "again": FRESH}
        assert (await person.post(f"{path}/senha", on=path, password="guess", **fields)).status == 400
        assert (await person.post(f"{path}/senha", on=path, password=person.password, **fields)).status == 303
        page = await person.opened(factor)
        secret = b32decode(page.field("Ou digite este segredo no aplicativo").replace(" ", ""))
        sealed = re.search(r'name="secret" value="([0-9a-f]+)"', page.html)
        assert sealed
        code = code_at(secret, step_at(site.clock.at))
        assert (await person.post(factor, form=page, secret=sealed[1], code=code, password=FRESH)).status == 200
        site.clock.on(timedelta(seconds=STEP_S))
        off, code = f"{factor}/desligar", code_at(secret, step_at(site.clock.at))
        assert (await person.post(off, on=factor, code="000000", password=FRESH)).status == 400
        assert (await person.post(off, on=factor, code=code, password=FRESH)).status == 303
        # Refused changes are not mailed.
        told = await site.security_mails(person)
        assert [kind for kind, _ in told] == ["session.new_device", "password.changed", "factor.on", "factor.off"]
        assert {client for _, client in told} == {"127.0.0.1"}


def test_a_place_is_a_16_bit_ipv4_or_a_32_bit_ipv6_network() -> None:
    """A network of this size is about what an operator hands out in a region."""
    assert place_of("203.0.113.7") == place_of("203.0.1.1") != place_of("203.1.113.7")
    assert place_of("2001:db8:1::1") == place_of("2001:db8:ffff::9") != place_of("2001:db9::1")
    assert place_of("::ffff:203.0.113.7") == place_of("203.0.113.7")
    assert place_of("") != place_of("unix")


async def test_a_bounded_number_of_places_is_kept_per_person_and_the_first_is_never_new(pool: Pool, site: Site) -> None:
    now = site.clock.now()
    async with signed_out_person(site, "/painel") as person, pool.acquire() as conn:

        async def is_new_place(address: str, at: datetime) -> bool:
            return await remember_place(conn, person.email, address, now=at, seal=SEAL)

        async def count_places() -> Any:
            return await conn.fetchval("SELECT count(*) FROM sign_in_place WHERE email = $1", person.email)

        told = [await is_new_place(f"10.{n}.0.1", now + timedelta(minutes=n)) for n in range(PLACES_MAX + 5)]
        assert told == [False] + [True] * (PLACES_MAX + 4)
        assert await count_places() == PLACES_MAX
        later = now + timedelta(days=1)
        # The oldest places were forgotten, the newest were not.
        assert not await is_new_place(f"10.{PLACES_MAX + 4}.9.9", later)
        assert await is_new_place("10.0.0.1", later)
        # After half a year all places are forgotten, and the next one counts as the first.
        assert not await is_new_place("10.7.0.1", later + REMEMBERED)
        assert await count_places() == 1
        stored = await conn.fetch("SELECT place_hash FROM sign_in_place WHERE email = $1", person.email)
        assert not any("10." in row["place_hash"] for row in stored)
        await conn.execute("DELETE FROM dashboard_user WHERE email = $1", person.email)
        assert await count_places() == 0
