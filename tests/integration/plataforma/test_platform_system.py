"""Staff and the request log on the whole system: staff accounts by the command line, and every API process."""

import asyncio
import re
import secrets
import time

import aiohttp

from tests.support.dashboard import Person, Seen, owner_in_browser
from tests.support.merchant import new_merchant, until_answer
from tests.support.system import System

WITHIN_S = 1.0


async def test_dev_json_names_a_member_of_staff_and_the_merchants(system: System) -> None:
    assert set(system.dev) >= {"base_url", "app_url", "docs_url", "bank_url", "merchants", "staff"}
    assert set(system.dev["staff"]) == {"email", "password"}
    person = Person(system.app_url, **system.dev["staff"], root="/plataforma")
    try:
        assert (await person.sign_in()).status == 303
        for path in ("", "/lojas", "/parceiros", "/relatorios", "/equipe", "/auditoria"):
            assert (await person.get(f"/plataforma{path}")).status == 200, path
        for merchant in system.merchants:
            # The search runs with the database role of production, for every kind of text.
            for typed in ("529.982.247-25", "pedido de ninguém", "E" + "9" * 31, "0" * 20, "req_0123456789ab"):
                seen = await person.post("/plataforma/busca", on="/plataforma/busca", q=typed)
                assert seen.status == 200, (typed, seen.text[:200])
            shown = await person.opened(f"/plataforma/lojas/{merchant['account_id']}")
            assert merchant["name"] in shown.text
    finally:
        await person.http.close()


async def test_staff_are_created_changed_reset_and_removed_on_the_command_line(system: System) -> None:
    email = f"equipe.{secrets.token_hex(4)}@example.com"
    sent = {"email": email, "mailed": True}
    assert system.json("staff", "create", "--email", email.upper()) == sent
    assert _staff_list(system)[email] == ("admin", True)
    assert system.quita("staff", "create", "--email", email).returncode == 1
    person = Person(system.app_url, email, "a senha da equipe", root="/plataforma")
    try:
        assert (await person.sign_in()).status == 403
        first = await _choose_password(system, person, set())
        assert (await person.sign_in()).status == 303
        assert email in (await person.opened("/plataforma/equipe")).text
        role = ("--email", email, "--role", "finance")
        assert system.json("staff", "role", *role) == {"email": email, "role": "finance"}
        assert _staff_list(system)[email] == ("finance", False)
        assert (await person.get("/plataforma/equipe")).status == 403
        assert (await person.get("/plataforma/devolucoes")).status == 200
        assert system.json("staff", "reset", "--email", email) == sent
        assert (await person.get("/plataforma")).status == 303
        person.password = "outra senha da equipe"
        await _choose_password(system, person, {first})
        assert (await person.sign_in()).status == 303
        assert system.json("staff", "remove", "--email", email) == {"email": email, "removed": True}
        assert (await person.get("/plataforma")).status == 303
    finally:
        await person.http.close()
    for verb, who in (("remove", email), ("reset", system.merchants[0]["dashboard"]["email"])):
        refused = system.quita("staff", verb, "--email", who)
        assert (refused.returncode, "is not of the staff" in refused.stderr) == (1, True)


async def test_the_last_admin_can_be_neither_removed_nor_demoted_and_unknown_roles_are_refused(system: System) -> None:
    email = f"equipe.{secrets.token_hex(4)}@example.com"
    refused = system.quita("staff", "create", "--email", email, "--role", "owner")
    assert (refused.returncode, "invalid choice" in refused.stderr) == (2, True)
    made = system.json("staff", "create", "--email", email, "--role", "support", "--name", "Ana Lima")
    assert made == {"email": email, "mailed": True}
    admin = system.dev["staff"]["email"]
    for other, (role, _) in _staff_list(system).items():
        if role == "admin" and other != admin:
            system.json("staff", "remove", "--email", other)
    for words in (("remove",), ("role", "--role", "support")):
        refused = system.quita("staff", words[0], "--email", admin, *words[1:])
        assert (refused.returncode, "the last admin stays" in refused.stderr) == (1, True), refused.stderr
    person = Person(system.app_url, **system.dev["staff"], root="/plataforma")
    try:
        assert (await person.sign_in()).status == 303
        shown = await person.opened("/plataforma/equipe")
        assert f"Ana Lima {email} Atendimento" in shown.text
        log = (await person.opened("/plataforma/auditoria")).text
        assert f"Convidou uma pessoa para a equipe {email}" in log
        assert system.json("staff", "remove", "--email", email)["removed"]
        log = (await person.opened("/plataforma/auditoria")).text
        assert f"Removeu uma pessoa da equipe {email}" in log
    finally:
        await person.http.close()


def _staff_list(system: System) -> dict[str, tuple[str, bool]]:
    """By e-mail: the role, and whether the person has yet to choose a password."""
    return {each["email"]: (each["role"], each["fresh"]) for each in system.json("staff", "list")}


async def _choose_password(system: System, person: Person, before: set[str]) -> str:
    """Follow this person's link in the mail catcher, choose the password, and return the link."""
    found = await until_answer(lambda: _mailed_links(system, person, before))
    seen = await person.post(found[0], on=found[0], new=person.password, again=person.password)
    assert (seen.status, seen.where) == (303, f"{person.root}/entrar?senha=1"), seen.text[:300]
    return str(found[0])


async def _mailed_links(system: System, person: Person, before: set[str]) -> list[str]:
    listed = await person.opened("/correio")
    items = re.findall(r"<li>.*?</li>", listed.html, re.DOTALL)
    links = []
    for item in items:
        address = re.search(r'href="(/correio/[0-9a-f-]+)"', item)
        if person.email in item and address:
            letter = await person.opened(address[1])
            links += re.findall(rf"({person.root}/recuperar/[A-Za-z0-9_-]{{43}})", letter.html)
    return [each for each in dict.fromkeys(links) if each not in before]


async def test_a_registration_is_decided_on_the_command_line(system: System) -> None:
    account_id = system.create_merchant(kyc="pending")["account_id"]
    assert system.quita("merchant", "reject", account_id).returncode == 2
    assert system.quita("merchant", "block", account_id, "--reason", "cedo demais").returncode == 1
    for arguments, kyc in (
        (("reject", account_id, "--reason", "documento ilegível"), "rejected"),
        (("approve", account_id), "approved"),
        (("approve", account_id), "approved"),
        (("block", account_id, "--reason", "fraude"), "blocked"),
        (("approve", account_id), "approved"),
    ):
        assert system.json("merchant", *arguments) == {"account_id": account_id, "kyc": kyc}


async def test_suspended_pix_is_refused_by_every_process_within_a_second(system: System) -> None:
    person = Person(system.app_url, **system.dev["staff"], root="/plataforma")
    try:
        assert (await person.sign_in()).status == 303
        async with new_merchant(system) as merchant:
            token = await merchant.production.token()

            async def statuses() -> set[int]:
                # A new connection for each request, so that every process answers some of them.
                async def post_charge() -> int:
                    connector = aiohttp.TCPConnector(force_close=True)
                    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": secrets.token_hex(8)}
                    body = {"account_id": str(merchant.record.account_id), "amount": "1.00"}
                    async with (
                        aiohttp.ClientSession(connector=connector, headers=headers) as http,
                        http.post(f"{system.base_url}/v1/charges/pix", json=body) as answer,
                    ):
                        return answer.status

                return set(await asyncio.gather(*(post_charge() for _ in range(8))))

            assert await statuses() == {201}
            await person.post("/plataforma/pix/suspender", on="/plataforma", reason="ensaio")
            try:
                began, asked_s = time.monotonic(), 0.0
                while await statuses() != {403}:
                    assert asked_s < WITHIN_S, "a request later than that must be refused"
                    asked_s = time.monotonic() - began
            finally:
                await person.post("/plataforma/pix/retomar", on="/plataforma")
            assert await statuses() == {201}
    finally:
        await person.http.close()


async def test_requests_to_any_api_process_are_in_the_owners_request_log(system: System) -> None:
    async with new_merchant(system) as merchant, owner_in_browser(system.app_url, merchant.record) as owner:
        token = await merchant.production.token()
        headers = {"Authorization": f"Bearer {token}"}
        asked = []
        for _ in range(8):
            async with (
                aiohttp.ClientSession(headers=headers) as http,
                http.get(f"{system.base_url}/v1/charges/{secrets.token_hex(16)}") as answer,
            ):
                asked.append(answer.headers["X-Request-Id"])

        async def logged() -> list[Seen]:
            seen = [await owner.get(f"/painel/requisicoes/{request_id}") for request_id in asked]
            return seen if all(each.status == 200 for each in seen) else []

        assert all("CHARGE_NOT_FOUND" in each.text for each in await until_answer(logged))
