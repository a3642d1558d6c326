"""A person is mailed of a sign-in from elsewhere, and of what was done with the own access: by others perhaps."""

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
from tests.support.dashboard import Clock, Person, Seen, a_merchant, person_of, settings_with, staff_of
from tests.support.pages import serving

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0", TRUSTED_PROXIES="127.0.0.0/8")
SEAL = Seal(SETTINGS.secret_key)
FRESH = "quatro palavras sem ligação"


class Site(NamedTuple):
    pool: Pool
    clock: Clock
    address: str

    async def told(self, person: Person) -> list[tuple[str, str]]:
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
async def somebody(site: Site, section: str) -> AsyncIterator[Person]:
    if section == "/plataforma":
        async with staff_of(site.pool, site.address, signed_in=False) as person:
            yield person
    else:
        async with person_of(site.address, await a_merchant(site.pool), signed_in=False) as person:
            yield person


async def signed_in(person: Person, client: str) -> None:
    """From this address."""
    entry, headers = f"{person.root}/entrar", {"X-Forwarded-For": client}
    page = await person.ask("GET", entry, headers=headers)
    fields = {"csrf": page.hidden()["csrf"], "email": person.email, "password": person.password}
    seen: Seen = await person.ask("POST", entry, data=fields, headers=headers)
    assert seen.status == 303, seen.text[:300]
    assert (await person.post(f"{person.root}/sair")).status == 303


@pytest.mark.parametrize("section", ["/painel", "/plataforma"])
async def test_a_known_browser_from_a_network_where_its_person_never_was_is_told(site: Site, section: str) -> None:
    async with somebody(site, section) as person:
        # Nobody knows the browser yet; then it is known, and the city's next address is the same place.
        for client in ("203.0.113.7", "203.0.113.7", "203.0.200.1"):
            await signed_in(person, client)
        assert await site.told(person) == [("session.new_device", "203.0.113.7")]
        await signed_in(person, "198.51.100.1")
        await signed_in(person, "198.51.100.9")
        await signed_in(person, "203.0.113.7")
        assert (await site.told(person))[1:] == [("session.new_place", "198.51.100.1")]
        # Another browser, also from a known place, is told as what it is, and once.
        person.http.cookie_jar.clear()
        await signed_in(person, "2001:db8::1")
        assert (await site.told(person))[2:] == [("session.new_device", "2001:db8::1")]
        await signed_in(person, "2001:db8:ffff::1")
        assert len(await site.told(person)) == 3


@pytest.mark.parametrize("section", ["/painel", "/plataforma"])
async def test_what_is_done_with_the_own_access_is_mailed(site: Site, section: str) -> None:
    async with somebody(site, section) as person:
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
        # What was refused is not told.
        told = await site.told(person)
        assert [kind for kind, _ in told] == ["session.new_device", "password.changed", "factor.on", "factor.off"]
        assert {client for _, client in told} == {"127.0.0.1"}


def test_a_place_is_what_an_operator_hands_out_in_a_region() -> None:
    assert place_of("203.0.113.7") == place_of("203.0.1.1") != place_of("203.1.113.7")
    assert place_of("2001:db8:1::1") == place_of("2001:db8:ffff::9") != place_of("2001:db9::1")
    assert place_of("::ffff:203.0.113.7") == place_of("203.0.113.7")
    assert place_of("") != place_of("unix")


async def test_of_one_person_so_many_places_are_kept_and_the_first_is_never_new(pool: Pool, site: Site) -> None:
    now = site.clock.now()
    async with somebody(site, "/painel") as person, pool.acquire() as conn:

        async def fresh(address: str, at: datetime) -> bool:
            return await remember_place(conn, person.email, address, now=at, seal=SEAL)

        async def kept() -> Any:
            return await conn.fetchval("SELECT count(*) FROM sign_in_place WHERE email = $1", person.email)

        told = [await fresh(f"10.{n}.0.1", now + timedelta(minutes=n)) for n in range(PLACES_MAX + 5)]
        assert told == [False] + [True] * (PLACES_MAX + 4)
        assert await kept() == PLACES_MAX
        later = now + timedelta(days=1)
        # The oldest were forgotten, the newest were not.
        assert not await fresh(f"10.{PLACES_MAX + 4}.9.9", later)
        assert await fresh("10.0.0.1", later)
        # After half a year all are, and it begins anew.
        assert not await fresh("10.7.0.1", later + REMEMBERED)
        assert await kept() == 1
        stored = await conn.fetch("SELECT place_hash FROM sign_in_place WHERE email = $1", person.email)
        assert not any("10." in row["place_hash"] for row in stored)
        await conn.execute("DELETE FROM dashboard_user WHERE email = $1", person.email)
        assert await kept() == 0
