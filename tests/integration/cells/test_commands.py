"""`quita cell` beside a running system: a cell is added, serves merchants, is paid into, and is listed as away when its
server stops."""

import argparse
import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import httpx
import pytest

from cli.cells.choose import enter
from runtime.cells.addresses import as_role_of
from runtime.cells.number import HOME, cell_of, current_cell, in_cell
from runtime.ids import new_id
from runtime.local.embedded import EmbeddedPostgres
from tests.support.boleto_merchant import BOLETO, boleto_body
from tests.support.cells import second_server
from tests.support.system import TWO_APIS, System, remove_home, temporary_home

WAIT_S = 40.0


@pytest.fixture
def system() -> Any:
    whole = System(temporary_home(), env=TWO_APIS)
    try:
        yield whole.start()
        assert whole.stop() == 0, whole.said()[-4000:]
    finally:
        if whole.running():
            whole.kill()
        remove_home(whole.home)


def states_by_name(system: System) -> dict[str, str]:
    done = system.quita("cell", "list", "--json")
    listed = json.loads(done.stdout)
    assert done.returncode == (1 if any(each["state"] == "away" for each in listed) else 0)
    return {each["name"]: each["state"] for each in listed}


def token(client: httpx.Client, credential: dict[str, str]) -> dict[str, str]:
    reply = client.post("/v1/oauth/token", data={"grant_type": "client_credentials", **credential})
    assert reply.status_code == 200, reply.text
    return {"Authorization": f"Bearer {reply.json()['access_token']}"}


def create(client: httpx.Client, account_id: str, headers: dict[str, str], key: str) -> httpx.Response:
    body = {"account_id": account_id, "amount": "10.00"}
    deadline = time.monotonic() + WAIT_S
    while True:  # The cell's worker starts, and makes locations, some seconds after the cell is added.
        made = client.post("/v1/charges/pix", json=body, headers={**headers, "Idempotency-Key": key})
        if made.status_code == 201 or time.monotonic() > deadline:
            return made


def bring_a_share(system: System, client: httpx.Client, partner: dict[str, Any]) -> None:
    """Pays a boleto of home's merchant that has the code of a partner in the other cell; waits for the share there."""
    made = system.json("integrator", "create", "Ana", "--share", "2.5", "--account-id", partner["account_id"])
    elsewhere = system.quita("integrator", "set", made["integrador_code"], "--share", "9", "--cell", "bela")
    assert (elsewhere.returncode, "leave --cell out" in elsewhere.stderr) == (1, True)
    assert made in system.json("integrator", "list", "--cell", "bela"), "the other cell must know the partner at once"
    nobody = "00000000-0000-7001-8000-000000000000"
    refused = system.quita("integrator", "create", "Eva", "--account-id", nobody)
    assert (refused.returncode, "WALLET_ACCOUNT_NOT_FOUND" in refused.stderr) == (1, True), refused.stderr
    home = system.merchants[0]
    headers = {**token(client, home["test"]), "Idempotency-Key": "brought"}
    body = boleto_body("100.00", account_id=home["account_id"], integrador_code=made["integrador_code"])
    issued = client.post(BOLETO, json=body, headers=headers)
    assert issued.status_code == 201, issued.text
    paid = client.post(f"/v1/charges/{issued.json()['charge_id']}/simulate-payment", headers=headers)
    assert paid.status_code == 200, paid.text
    deadline = time.monotonic() + WAIT_S
    theirs = token(client, partner["test"])
    ledger = f"/v1/accounts/{partner['account_id']}/ledger"
    while not (lines := client.get(ledger, headers=theirs).json()["data"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [(each["type"], each["amount"]) for each in lines] == [("partner_share", "2.50")]


async def with_owner_of_home(system: System, server: EmbeddedPostgres) -> str:
    """The address of the server's database for a role of the name and password of home's owner, as which `quita
    migrate` and the other commands of the owner connect to each cell."""
    home = json.loads((system.home / "run.json").read_bytes())["database_owner_url"]
    conn = await asyncpg.connect(server.dsn)
    assert urlsplit(home).username == urlsplit(server.dsn).username
    await conn.execute(f"ALTER ROLE {urlsplit(home).username} PASSWORD '{urlsplit(home).password}'")
    await conn.close()
    return as_role_of(server.dsn, home)


def recover_and_migrate(system: System, cell: str) -> None:
    """The owner's commands for a cell whose server was restored to an earlier instant."""
    begun = system.json("recover", "begin", "--restored-to", datetime.now(UTC).isoformat(), "--cell", cell)
    assert begun["begun"]
    assert system.quita("recover", "status").returncode == 0, "home was not restored"
    assert system.quita("recover", "status", "--cell", cell).returncode == 1
    compared = system.json("recover", "compare", "--cell", cell)
    assert (compared["listed"], compared["differences"]) == (1, [])
    assert system.json("recover", "release", "--compared-by", "Ana", "--cell", cell)["released"]
    assert system.json("migrate", "--cell", cell) == {"applied": []}
    assert system.json("migrate") == {"applied": [], "cells": {cell: []}, "away": {}}


def test_a_cell_added_to_a_running_system_serves_merchants_and_is_away_without_its_server(system: System) -> None:
    assert states_by_name(system) == {"home": "serving"}
    assert system.quita("cell", "list").stdout.split()[:3] == ["0", "home", "serving"]
    with second_server() as second:
        for owner in (second.dsn, "postgresql://somebody:else@host"):  # another password there; another name
            foreign = system.quita("cell", "add", "bela", as_role_of(second.dsn, owner))
            assert (foreign.returncode, "home's owner" in foreign.stderr) == (1, True), foreign.stderr
        dsn = asyncio.run(with_owner_of_home(system, second))
        added = system.json("cell", "add", "bela", dsn, "--schema", "cell_bela")
        assert (added["number"], added["name"]) == (1, "bela")
        assert str(urlsplit(dsn).password) not in json.dumps(added), "no password is printed"
        again = system.quita("cell", "add", "bela", dsn, "--schema", "cell_bela")
        assert (again.returncode, again.stderr.count("\n")) == (1, 1)
        inside = system.quita("cell", "add", "cora", dsn, "--schema", "cell_cora", "--cell", "bela")
        assert (inside.returncode, "leave --cell out" in inside.stderr) == (1, True), inside.stderr
        assert states_by_name(system) == {"home": "serving", "bela": "serving"}

        merchant = system.json("merchant", "create", "--cell", "bela", "--name", "Loja", "--demo")
        with httpx.Client(base_url=system.base_url, timeout=30) as client:
            headers = token(client, merchant["production"])
            made = create(client, merchant["account_id"], headers, "first")
            assert made.status_code == 201, made.text
            charge_id = made.json()["charge_id"]
            # The id leads the command to the cell; the bank calls back, and the cell's own worker confirms.
            system.json("bank", "pay", "--charge-id", charge_id)
            deadline = time.monotonic() + WAIT_S
            while (seen := client.get(f"/v1/charges/{charge_id}", headers=headers).json())["status"] != "paid":
                assert time.monotonic() < deadline, seen
                time.sleep(0.1)
            assert cell_of(UUID(seen["payment"]["payment_id"])) == 1, "the worker that booked it is the cell's"

            while True:  # A worker writes its heartbeat every five seconds.
                everywhere = system.json("status", "--cell", "all")
                if {each["cell"] for each in everywhere["workers"]} == {"home", "bela"}:
                    break
                assert time.monotonic() < deadline, everywhere
            assert (everywhere["working"], everywhere["away"]) == (True, {})
            bring_a_share(system, client, merchant)

            system.json("pix", "suspend")
            for whole in (merchant, system.merchants[0]):
                refused = client.post(
                    "/v1/charges/pix",
                    json={"account_id": whole["account_id"], "amount": "10.00"},
                    headers={**token(client, whole["production"]), "Idempotency-Key": "suspended"},
                )
                assert refused.json()["error"]["code"] == "PIX_AVULSO_SUSPENDED", refused.text
            system.json("pix", "resume")
            assert system.json("readmodels", "verify", "--cell", "bela")["differences"] == []
            recover_and_migrate(system, "bela")
        nowhere = system.quita("pix", "resume", "--cell", "nowhere")
        assert (nowhere.returncode, "quita cell list" in nowhere.stderr) == (1, True)
        second.stop()
        assert states_by_name(system) == {"home": "serving", "bela": "away"}
        without = system.quita("status", "--cell", "all", "--json")
        assert (without.returncode, list(json.loads(without.stdout)["away"])) == (1, ["bela"])
        second.restart()


def test_the_option_cell_home_wins_over_the_cell_of_an_id() -> None:
    with in_cell(1):
        charge_id = new_id()
    enter(argparse.Namespace(cell="home", charge_id=charge_id))
    assert current_cell() == HOME


async def test_a_new_installation_has_the_home_cell_only(servers: Any) -> None:
    conn = await asyncpg.connect(servers.owner_url)
    assert await conn.fetchval("SELECT number FROM this_cell") == 0
    assert await conn.fetchval("SELECT count(*) FROM cell") == 0
    await conn.close()
