"""Charge schedules (contract section 13): the API in this process, a worker whose clock the test sets, and the
simulated bank's production world."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from banks.protocol import Unknown
from banks.simulated.bank import PRODUCTION, SimulatedBank
from commands.bank_orders.pix_locations import PixLocation
from commands.merchants.pix_suspension import resume_pix, suspend_pix
from commands.schedules import LEASE, RETRIES, claim, issue_pix
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import PaymentTerms
from domain.instants import SAO_PAULO
from domain.mode import Mode
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.support.banking import BANK, SECRET_KEY, worker_context
from tests.support.in_process import Api, Reply, bearer, open_api
from tests.support.merchant import new_merchant, until_answer
from tests.support.system import System
from workers.context import Context
from workers.mail.sender import write_due_mails
from workers.orders.boleto import BoletoOrderWorker
from workers.schedules import ScheduleWorker

SEAL = Seal(bytes.fromhex(SECRET_KEY))
PATH = "/v1/charge-schedules"
PAYER = {"name": "Ana", "document": "52998224725", "email": "ana@example.com"}
ADDRESS = {"zip_code": "01310100", "street": "Avenida Paulista", "number": "1578", "city": "São Paulo", "state": "SP"}


class World:
    """The API, and a worker that issues what is due at the time that the test sets."""

    def __init__(self, api: Api, context: Context) -> None:
        self.api = api
        self.context = context
        self.now = datetime.now(UTC)
        self.worker = ScheduleWorker(context)

    async def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None, **who: Any) -> Reply:
        token = await self.api.token(who.get("merchant"), who.get("mode", "production"), who.get("scope"))
        if method == "GET":
            return await self.api.get(PATH + path, token=token)
        return await self.api.post(PATH + path, body, token=token, key=key)

    async def create(self, key: str | None = None, **more: Any) -> Reply:
        return await self.ask("POST", "", schedule(**more), key=key or secrets.token_hex(8))

    async def created(self, **more: Any) -> dict[str, Any]:
        reply = await self.create(**more)
        assert reply.status == 201, reply
        made: dict[str, Any] = reply.json()
        return made

    async def get(self, schedule_id: str) -> dict[str, Any]:
        reply = await self.ask("GET", f"/{schedule_id}")
        assert reply.status == 200, reply
        found: dict[str, Any] = reply.json()
        return found

    async def charges(self, schedule_id: str, query: str = "?order=asc&limit=100") -> list[dict[str, Any]]:
        reply = await self.ask("GET", f"/{schedule_id}/charges{query}")
        assert reply.status == 200, reply
        data: list[dict[str, Any]] = reply.json()["data"]
        return data

    async def work(self, when: datetime | None = None) -> None:
        """Do everything that is due at `when` (default: the current `now`), the bank's answers included."""
        if when is not None:
            self.now = when.astimezone(UTC)
        for _ in range(400):
            done = await self.worker.drain() + await BoletoOrderWorker(self.context, Mode.PRODUCTION).drain()
            if done:
                continue
            # A boleto whose order is checked again within 3 s: the clock is set forward instead of waiting.
            nearest = await self.context.pool.fetchval("SELECT min(look_at) FROM schedule WHERE ordered")
            if nearest is None or nearest > self.now + timedelta(seconds=3):
                return
            self.now = nearest
        raise AssertionError("work is still due after 400 rounds")


def today() -> date:
    return datetime.now(SAO_PAULO).date()


def schedule(**more: Any) -> dict[str, Any]:
    """The body of a schedule; a field given as ... is left out."""
    body = {
        "payment_method": "pix", "amount": "99.90", "payer": PAYER, "frequency": "monthly",
        "first_due_date": str(today() + timedelta(days=40)), **more,
    }  # fmt: skip
    return {name: value for name, value in body.items() if value is not ...}


def at(day: date, hour: int = 6, minute: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=SAO_PAULO)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(servers: Any) -> AsyncIterator[Api]:
    async with open_api(servers.database_url, servers.redis_url, SECRET_KEY=SECRET_KEY) as opened:
        yield opened


@pytest.fixture
async def world(api: Api, pool: Pool, servers: Any) -> AsyncIterator[World]:
    await pool.execute("UPDATE schedule SET status = 'cancelled', ordered = false")
    bank = SimulatedBank(pool, SEAL, world=PRODUCTION, url="https://bank.example.com", now=lambda: datetime.now(UTC))
    async with worker_context(pool, servers.redis_url, bank) as context:
        made = World(api, context)
        context.now = lambda: made.now
        yield made


# The API: creation, refusals, scopes, lists


async def test_a_schedule_gives_its_metadata_to_each_of_its_charges(world: World) -> None:
    first = today() + timedelta(days=12)
    for method, payer in (("pix", PAYER), ("boleto", PAYER | {"address": ADDRESS})):
        made = await world.created(
            payment_method=method, payer=payer, first_due_date=str(first), metadata={"plan": "gold", "area": "7"}
        )
        assert list(made["metadata"].items()) == [("area", "7"), ("plan", "gold")]
        assert (await world.get(made["schedule_id"]))["metadata"] == made["metadata"]
        await world.work(at(first - timedelta(days=10)))
        (issued,) = await world.charges(made["schedule_id"])
        assert issued["charge"]["metadata"] == made["metadata"]


async def test_a_new_schedule_is_answered_with_every_field_of_its_request_and_the_next_due_date(world: World) -> None:
    first = today() + timedelta(days=40)
    reply = await world.create(
        first_due_date=str(first), max_charges=12, external_id="assinatura 7", description="Plano", send_email=True
    )
    assert reply.status == 201
    made = reply.json()
    assert UUID(made.pop("schedule_id")).version == 7
    assert made.pop("created_at").endswith("Z")
    assert made == {
        "account_id": str(world.api.first.account_id), "status": "active", "payment_method": "pix", "amount": "99.90",
        "frequency": "monthly", "first_due_date": str(first), "end_date": None, "max_charges": 12,
        "issue_days_before": 10, "external_id": "assinatura 7", "description": "Plano", "send_email": True,
        "next_number": 1, "next_due_date": str(first),
        "next_issue_at": at(first - timedelta(days=10)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "failure": None, "version": 1,
    }  # fmt: skip


async def test_twenty_equal_requests_at_once_make_one_schedule(world: World) -> None:
    key, body = secrets.token_hex(8), schedule(external_id=secrets.token_hex(8))
    replies = await asyncio.gather(*(world.ask("POST", "", body, key=key) for _ in range(20)))
    assert sorted(reply.status for reply in replies) == [200] * 19 + [201]
    assert len({reply.json()["schedule_id"] for reply in replies}) == 1
    again = await world.ask("POST", "", body, key=key)
    assert (again.status, again.header("idempotent-replayed"), again.header("idempotency-key")) == (200, "true", key)
    other = await world.ask("POST", "", {**body, "amount": "1.00"}, key=key)
    assert other.code() == "IDEMPOTENCY_KEY_REUSED"
    listed = (await world.ask("GET", f"?external_id={body['external_id']}")).json()["data"]
    assert len(listed) == 1
    state = await world.api.get(f"/v1/idempotency-keys/{key}", token=await world.api.token(mode="production"))
    assert (state.json()["state"], state.json()["resource_type"]) == ("completed", "schedule")


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    *(({"amount": amount}, "AMOUNT_INVALID", "amount") for amount in (..., None, 1, "0", "1.000", "x")),
    ({"payment_method": "boleto", "amount": "100000000.00"}, "AMOUNT_INVALID", "amount"),
    ({"payment_method": "boleto", "amount": "100000000.00", "frequency": "never"}, "AMOUNT_INVALID", "amount"),
    *(
        ({"first_due_date": day}, "INVALID_DUE_DATE", "first_due_date")
        for day in (..., None, 1, "2027-02-30", "x", "2050-01-01", "2020-01-01", str(today()))
    ),
    *(({"end_date": day}, "DATE_RANGE_INVALID", "end_date") for day in (1, "x", "2027-02-30", str(today()))),
    *(({"payment_method": each}, "VALIDATION_ERROR", "payment_method") for each in (..., None, "card", "boleto_pix")),
    *(({"frequency": each}, "VALIDATION_ERROR", "frequency") for each in (..., None, "daily", 1)),
    *(({"max_charges": each}, "VALIDATION_ERROR", "max_charges") for each in (0, -1, 1001, "1", True, 1.5)),
    ({"max_charges": 2, "end_date": "2040-01-01"}, "VALIDATION_ERROR", "max_charges"),
    *(({"issue_days_before": each}, "VALIDATION_ERROR", "issue_days_before") for each in (-1, 31, "1", True)),
    *(({"payer": each}, "VALIDATION_ERROR", "payer") for each in (..., None, 1, "Ana")),
    ({"payer": {"document": "1"}}, "VALIDATION_ERROR", "payer.document"),
    ({"payer": {"document": "52998224726"}}, "VALIDATION_ERROR", "payer.document"),
    ({"payer": {"email": "x"}}, "VALIDATION_ERROR", "payer.email"),
    ({"payment_method": "boleto"}, "VALIDATION_ERROR", "payer.address"),
    ({"payment_method": "boleto", "payer": {"address": ADDRESS, "name": "Ana"}}, "VALIDATION_ERROR", "payer.document"),
    (
        {"payment_method": "boleto", "payer": {**PAYER, "address": {**ADDRESS, "state": "XX"}}},
        "VALIDATION_ERROR", "payer.address.state",
    ),
    (
        {"payment_method": "boleto", "payer": {**PAYER, "person_type": "PESSOA_JURIDICA", "address": ADDRESS}},
        "VALIDATION_ERROR", "payer.document",
    ),
    *(
        ({name: value}, "VALIDATION_ERROR", name)
        for name, value in (
            ("fine", {"percent": "1"}), ("interest", {}), ("discounts", []), ("payable_days_after_due", 5),
        )
    ),
    *(
        ({"payment_method": "boleto", "payer": {**PAYER, "address": ADDRESS}, **more}, "VALIDATION_ERROR", field)
        for more, field in (
            ({"fine": {"percent": "2.01"}}, "fine.percent"),
            ({"fine": {"percent": "1", "amount": "1"}}, "fine"),
            ({"interest": {"percent_per_month": "1.01"}}, "interest.percent_per_month"),
            ({"payable_days_after_due": 1}, "payable_days_after_due"),
            ({"discounts": [{"amount": "1"}]}, "discounts.0.days_before_due"),
            ({"discounts": [{"days_before_due": 31, "amount": "1"}]}, "discounts.0.days_before_due"),
            ({"discounts": [{"days_before_due": 11, "amount": "1"}]}, "discounts.0.days_before_due"),
            ({"discounts": [{"days_before_due": 5, "amount": "99.90"}]}, "discounts.0.amount"),
            ({"discounts": [{"days_before_due": 3, "amount": "2"}, {"days_before_due": 3, "amount": "1"}]},
             "discounts.1.days_before_due"),
            ({"discounts": [{"days_before_due": 5, "amount": "2"}, {"days_before_due": 3, "percent": "1"}]},
             "discounts.1"),
            ({"discounts": [{"until": "2027-01-01", "amount": "2"}]}, "discounts.0.days_before_due"),
        )
    ),
    ({"external_id": "x" * 256}, "VALIDATION_ERROR", "external_id"),
    ({"description": "\x00"}, "VALIDATION_ERROR", "description"),
    ({"send_email": "yes"}, "VALIDATION_ERROR", "send_email"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "code", "field"), FAULTS, ids=lambda each: str(each)[:60])
async def test_an_invalid_field_of_a_schedule_is_refused_by_name_and_keeps_no_key(
    world: World, more: dict[str, Any], code: str, field: str
) -> None:
    key = secrets.token_hex(8)
    reply = await world.create(key, **more)
    assert reply.code() == code
    assert [each["field"] for each in reply.json()["error"]["fields"]] == [field]
    assert (await world.create(key)).status == 201  # a refusal does not use up the key


async def test_a_test_credential_gets_sandbox_only_before_id_body_key_and_scope_are_checked(world: World) -> None:
    made = await world.created()
    for scope in (None, "charges:read"):
        token = await world.api.token(scope=scope)
        for schedule_id in (made["schedule_id"], str(uuid4()), "x"):
            for method, path in (
                ("GET", f"/{schedule_id}"), ("GET", f"/{schedule_id}/charges"), ("POST", f"/{schedule_id}/pause"),
                ("POST", f"/{schedule_id}/resume"), ("POST", f"/{schedule_id}/cancel"), ("GET", "?limit=x"),
            ):  # fmt: skip
                path, _, query = path.partition("?")
                reply = await world.api.ask(method, PATH + path, query=query.encode(), headers=bearer(token))
                assert reply.code() == "SANDBOX_ONLY"
        json = [(b"content-type", b"application/json")]
        for headers, body in ((json, b"{"), (json, b'{"amount": 1}'), ([], b"")):
            reply = await world.api.ask("POST", PATH, headers=[*headers, *bearer(token)], body=body)
            assert reply.code() == "SANDBOX_ONLY"


async def test_a_schedule_scope_admits_its_routes_and_no_others(world: World) -> None:
    made = await world.created()
    one = f"/{made['schedule_id']}"
    for method, path, good, bad in (
        ("POST", "", "schedules:write", "charges:create"), ("POST", f"{one}/pause", "schedules:write", "payments:read"),
        ("GET", "", "payments:read", "schedules:write"), ("GET", one, "payments:read", "charges:read"),
        ("GET", f"{one}/charges", "payments:read", "schedules:write"),
    ):  # fmt: skip
        body = schedule() if method == "POST" and not path else None
        assert (await world.ask(method, path, body, key="k" + secrets.token_hex(4), scope=bad)).code() == (
            "INSUFFICIENT_SCOPE"
        )
        assert (await world.ask(method, path, body, key="k" + secrets.token_hex(4), scope=good)).status in (200, 201)


async def test_an_unknown_schedule_and_one_of_another_account_are_not_found(world: World) -> None:
    made = await world.created()
    for schedule_id in (made["schedule_id"], str(uuid4()), "x", made["schedule_id"].upper()):
        merchant = world.api.second if schedule_id == made["schedule_id"] else world.api.first
        for method, path in (
            ("GET", ""),
            ("GET", "/charges"),
            ("POST", "/pause"),
            ("POST", "/resume"),
            ("POST", "/cancel"),
        ):
            reply = await world.ask(method, f"/{schedule_id}{path}", merchant=merchant)
            assert reply.code() == "SCHEDULE_NOT_FOUND"
    assert (await world.ask("GET", "", merchant=world.api.second)).json()["data"] == []


async def test_an_account_without_kyc_or_address_cannot_create_a_schedule(world: World) -> None:
    reply = await world.ask("POST", "", schedule(), key="k", merchant=world.api.third)
    assert reply.code() == "KYC_REQUIRED"
    account_id = world.api.second.account_id
    address = await world.context.pool.fetchval("SELECT address FROM account WHERE account_id = $1", account_id)
    await world.context.pool.execute("UPDATE account SET address = NULL WHERE account_id = $1", account_id)
    boleto = schedule(payment_method="boleto", payer={**PAYER, "address": ADDRESS})
    try:
        reply = await world.ask("POST", "", boleto, key=secrets.token_hex(8), merchant=world.api.second)
        assert reply.code() == "MERCHANT_ADDRESS_REQUIRED"
    finally:
        await world.context.pool.execute("UPDATE account SET address = $2 WHERE account_id = $1", account_id, address)


async def test_schedules_are_listed_by_cursor_status_and_external_id(world: World) -> None:
    name = secrets.token_hex(8)
    ids = [(await world.created(external_id=name))["schedule_id"] for _ in range(5)]
    await world.ask("POST", f"/{ids[1]}/pause")
    seen, cursor = [], ""
    for _ in range(5):
        page = (await world.ask("GET", f"?external_id={name}&limit=2&order=asc{cursor}")).json()
        seen += [each["schedule_id"] for each in page["data"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == ids
    newest = (await world.ask("GET", f"?external_id={name}")).json()["data"]
    assert [each["schedule_id"] for each in newest] == ids[::-1]
    paused = (await world.ask("GET", f"?external_id={name}&status=paused")).json()["data"]
    assert [each["schedule_id"] for each in paused] == [ids[1]]
    assert (await world.ask("GET", "?limit=0")).code() == "LIMIT_INVALID"
    assert (await world.ask("GET", "?cursor=x")).code() == "CURSOR_INVALID"
    assert (await world.ask("GET", "?nope=1")).code() == "VALIDATION_ERROR"


# The worker: what it issues and when


async def test_a_pix_charge_is_issued_at_six_on_its_issue_day_and_not_before(world: World) -> None:
    first = today() + timedelta(days=40)
    made = await world.created(first_due_date=str(first), max_charges=2, description="Plano", external_id="a7")
    await world.work(at(first - timedelta(days=10), 5, 59))
    assert await world.charges(made["schedule_id"]) == []
    await world.work(at(first - timedelta(days=10), 6, 0))
    (issued,) = await world.charges(made["schedule_id"])
    assert (issued["number"], issued["due_date"], issued["state"], issued["failure"]) == (1, str(first), "issued", None)
    charge = issued["charge"]
    assert issued["charge_id"] == charge["charge_id"]
    assert (charge["amount"], charge["payment_method"], charge["status"]) == ("99.90", "pix", "pending")
    assert (charge["description"], charge["external_id"], charge["test"]) == ("Plano", "a7", False)
    assert charge["expires_at"].startswith(f"{first + timedelta(days=1)}T02:59:59") or charge["expires_at"] == (
        f"{first + timedelta(days=1)}T03:00:00.000Z"
    )
    after = await world.get(made["schedule_id"])
    assert (after["next_number"], after["status"]) == (2, "active")
    token = await world.api.token(mode="production")
    looked_up = (await world.api.get(f"/v1/charges/{charge['charge_id']}", token=token)).json()
    assert looked_up == charge
    state = await world.api.get(f"/v1/idempotency-keys/schedule:{made['schedule_id']}:1", token=token)
    assert state.json()["resource_id"] == charge["charge_id"]


async def test_a_schedule_keeps_month_ends_and_finishes_after_its_last_number(world: World) -> None:
    year = today().year + 1
    first = date(year, 1, 31)
    made = await world.created(first_due_date=str(first), end_date=f"{year}-04-30", issue_days_before=0)
    day = first - timedelta(days=1)
    while day < date(year, 6, 1):
        await world.work(at(day, 7))
        day += timedelta(days=1)
    numbers = await world.charges(made["schedule_id"])
    february = 29 if year % 4 == 0 else 28
    assert [each["due_date"] for each in numbers] == [
        f"{year}-01-31", f"{year}-02-{february}", f"{year}-03-31", f"{year}-04-30"
    ]  # fmt: skip
    assert {each["state"] for each in numbers} == {"issued"}
    assert len({each["charge_id"] for each in numbers}) == 4
    after = await world.get(made["schedule_id"])
    assert (after["status"], after["next_number"], after["next_due_date"]) == ("finished", None, None)
    assert (await world.ask("POST", f"/{made['schedule_id']}/resume")).code() == "SCHEDULE_ENDED"


async def test_a_boleto_is_registered_at_the_bank_before_it_counts_as_issued(world: World) -> None:
    first = today() + timedelta(days=40)
    made = await world.created(
        payment_method="boleto_hibrido", first_due_date=str(first), payer={**PAYER, "address": ADDRESS}, max_charges=1
    )
    await world.work(at(first - timedelta(days=10)))
    (issued,) = await world.charges(made["schedule_id"])
    charge = issued["charge"]
    assert (charge["status"], charge["due_date"], charge["payment_method"]) == ("pending", str(first), "boleto_hibrido")
    assert charge["boleto"]["qr_code"]
    number = charge["boleto"]["nosso_numero"]
    at_bank: Any = await world.context.pool.fetchrow("SELECT * FROM simulated_boleto WHERE number = $1", number)
    assert (at_bank["amount_cents"], at_bank["due_on"]) == (9990, first)
    assert (await world.get(made["schedule_id"]))["status"] == "finished"


async def test_each_boleto_of_a_schedule_has_its_terms_counted_from_its_own_due_date(world: World) -> None:
    first = today() + timedelta(days=40)
    asked = {
        "fine": {"percent": "2.00"}, "interest": {"amount_per_day": "0.03"}, "payable_days_after_due": 15,
        "discounts": [{"days_before_due": 7, "amount": "9.90"}, {"days_before_due": 2, "amount": "5.00"}],
    }  # fmt: skip
    made = await world.created(
        payment_method="boleto", first_due_date=str(first), max_charges=3, payer={**PAYER, "address": ADDRESS}, **asked
    )
    assert asked.items() <= made.items()
    assert asked.items() <= (await world.get(made["schedule_id"])).items()
    listed = (await world.ask("GET", "?limit=1")).json()["data"]
    assert asked.items() <= listed[0].items()
    dues = []
    for _ in range(2):
        due = date.fromisoformat((await world.get(made["schedule_id"]))["next_due_date"])
        await world.work(at(due - timedelta(days=10)))
        dues.append(due)
    assert dues[0] != dues[1]
    for due, issued in zip(dues, await world.charges(made["schedule_id"]), strict=True):
        charge = issued["charge"]
        assert (charge["due_date"], charge["fine"], charge["interest"]) == (str(due), asked["fine"], asked["interest"])
        assert charge["discounts"] == [
            {"until": str(due - timedelta(days=7)), "amount": "9.90"},
            {"until": str(due - timedelta(days=2)), "amount": "5.00"},
        ]
        late = effective_due_date(effective_due_date(due) + timedelta(days=15))
        assert charge["payable_until"] == str(late)
        at_bank: Any = await world.context.pool.fetchrow(
            "SELECT * FROM simulated_boleto WHERE number = $1", charge["boleto"]["nosso_numero"]
        )
        assert at_bank["due_on"] + timedelta(days=at_bank["late_days"]) == late
        registered = msgspec.json.decode(at_bank["terms"], type=PaymentTerms)
        assert [each.until for each in registered.discounts] == [due - timedelta(days=days) for days in (7, 2)]


async def test_a_boleto_issued_late_leaves_out_discounts_that_have_ended(world: World) -> None:
    first = today() + timedelta(days=40)
    discounts = [{"days_before_due": 7, "amount": "9.90"}, {"days_before_due": 2, "amount": "5.00"}]
    made = await world.created(
        payment_method="boleto", first_due_date=str(first), max_charges=2, payer={**PAYER, "address": ADDRESS},
        discounts=discounts,
    )  # fmt: skip
    await world.work(at(first - timedelta(days=5)))  # no worker ran before
    (issued,) = await world.charges(made["schedule_id"])
    assert issued["charge"]["discounts"] == [{"until": str(first - timedelta(days=2)), "amount": "5.00"}]
    second = date.fromisoformat((await world.get(made["schedule_id"]))["next_due_date"])
    await world.work(at(second - timedelta(days=1)))
    assert "discounts" not in (await world.charges(made["schedule_id"]))[1]["charge"]
    assert (await world.get(made["schedule_id"]))["discounts"] == discounts


async def test_a_schedule_for_a_company_may_have_a_higher_fine_than_one_for_a_person(world: World) -> None:
    company = {"name": "Padaria", "document": "11222333000181", "address": ADDRESS}
    more: dict[str, Any] = {"payment_method": "boleto", "fine": {"percent": "10.00"}}
    assert (await world.create(payer={**PAYER, "address": ADDRESS}, **more)).code() == "VALIDATION_ERROR"
    assert (await world.created(payer=company, **more))["payable_days_after_due"] == 30


async def test_a_boleto_is_issued_by_a_retry_after_the_bank_did_not_answer(world: World) -> None:
    first = today() + timedelta(days=40)
    made = await world.created(
        payment_method="boleto", first_due_date=str(first), payer={**PAYER, "address": ADDRESS}, max_charges=1
    )
    bank = world.context.banks.production[BANK]
    silent = _Silent(bank)
    world.context.banks.production[BANK] = silent
    await world.work(at(first - timedelta(days=10)))
    assert silent.asked >= 3
    assert await world.charges(made["schedule_id"]) == []
    failure = (await world.get(made["schedule_id"]))["failure"]
    assert (failure["number"], failure["code"]) == (1, "BANK_UNAVAILABLE")
    world.context.banks.production[BANK] = bank
    await world.work(world.now + RETRIES[0])
    (issued,) = await world.charges(made["schedule_id"])
    assert issued["state"] == "issued"
    assert (await world.get(made["schedule_id"]))["failure"] is None


class _Silent:
    """A bank that registers no boleto and does not answer."""

    def __init__(self, bank: Any) -> None:
        self._bank = bank
        self.asked = 0

    @property
    def boletos(self) -> Any:
        return self

    async def register_boleto(self, boleto: Any) -> Unknown:
        self.asked += 1
        return Unknown("silence")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bank if name in ("pix", "transfers") else self._bank.boletos, name)


async def test_a_boleto_ordered_before_its_schedule_is_stopped_is_issued_and_its_failure_ignored(world: World) -> None:
    first = today() + timedelta(days=40)
    boleto = {"payment_method": "boleto", "payer": {**PAYER, "address": ADDRESS}, "max_charges": 1}
    cancelled = await world.created(first_due_date=str(first), **boleto)
    world.now = at(first - timedelta(days=10)).astimezone(UTC)
    await world.worker.drain()
    assert (await world.ask("POST", f"/{cancelled['schedule_id']}/cancel")).status == 200
    await world.work()
    (issued,) = await world.charges(cancelled["schedule_id"])
    assert (issued["state"], (await world.get(cancelled["schedule_id"]))["status"]) == ("issued", "cancelled")

    # A failed order of a paused schedule is not recorded as its failure: the number waits for the resume.
    paused = await world.created(first_due_date=str(first), **boleto)
    bank = world.context.banks.production[BANK]
    world.context.banks.production[BANK] = _Silent(bank)
    await world.worker.drain()
    assert (await world.ask("POST", f"/{paused['schedule_id']}/pause")).status == 200
    await world.work()
    assert (await world.get(paused["schedule_id"]))["failure"] is None
    world.context.banks.production[BANK] = bank
    assert (await world.ask("POST", f"/{paused['schedule_id']}/resume")).status == 200
    await world.work()
    assert [each["state"] for each in await world.charges(paused["schedule_id"])] == ["issued"]


async def test_many_workers_at_once_issue_each_number_once(world: World) -> None:
    first = today() + timedelta(days=20)
    ids = [
        (await world.created(first_due_date=str(first), frequency="weekly", max_charges=3))["schedule_id"]
        for _ in range(10)
    ]
    world.now = at(first + timedelta(days=14), 5).astimezone(UTC)
    workers = [ScheduleWorker(world.context) for _ in range(4)]
    for _ in range(10):
        await asyncio.gather(*(worker.drain() for worker in workers))
    for schedule_id in ids:
        numbers = await world.charges(schedule_id)
        # The due dates of the first two have passed: no worker ran in time to issue them.
        assert [(each["number"], each["state"]) for each in numbers] == [(1, "skipped"), (2, "skipped"), (3, "issued")]
    count = "SELECT count(*) FROM charge_view WHERE doc ->> 'schedule_id' = ANY($1::text[])"
    assert await world.context.pool.fetchval(count, ids) == len(ids)


async def test_a_number_whose_worker_died_is_issued_once_more_and_not_twice(world: World) -> None:
    """A PIX charge and its schedule's progress are one transaction. A boleto that the bank registered before the
    schedule recorded it is found by the idempotency key of its number."""
    first = today() + timedelta(days=40)
    made = await world.created(first_due_date=str(first), max_charges=1)
    world.now = at(first - timedelta(days=10)).astimezone(UTC)
    async with world.context.pool.acquire() as conn:
        ours = [world.api.first.account_id]
        dues = await claim(conn, now=world.now, limit=50, account_ids=ours, each=50, lease_until=world.now + LEASE)
        (due,) = [each for each in dues if str(each.schedule_id) == made["schedule_id"]]
        place = PixLocation(secrets.randbits(60), f"bank.example.com/pix/v2/{secrets.token_urlsafe(20)}", BANK)
        dying = conn.transaction()
        await dying.start()
        assert await issue_pix(conn, due, place, now=world.now, seal=world.context.seal)
        await dying.rollback()
    await world.work()  # the dead worker's lease is still valid
    assert await world.charges(made["schedule_id"]) == []
    await world.work(world.now + LEASE)
    (issued,) = await world.charges(made["schedule_id"])
    assert issued["state"] == "issued"

    boleto = await world.created(
        payment_method="boleto", first_due_date=str(first), payer={**PAYER, "address": ADDRESS}, max_charges=1
    )
    world.now = at(first - timedelta(days=10)).astimezone(UTC)
    await world.worker.drain()
    await BoletoOrderWorker(world.context, Mode.PRODUCTION).drain()  # registered, and not yet recorded in the schedule
    token = await world.api.token(mode="production")
    key = f"/v1/idempotency-keys/schedule:{boleto['schedule_id']}:1"
    registered = (await world.api.get(key, token=token)).json()["resource_id"]
    await world.context.pool.execute(
        "UPDATE schedule SET ordered = false WHERE schedule_id = $1", UUID(boleto["schedule_id"])
    )
    await world.work(world.now + LEASE)
    (issued,) = await world.charges(boleto["schedule_id"])
    assert issued["charge_id"] == registered


async def test_a_paused_schedule_issues_nothing_and_skips_past_due_dates_when_resumed(world: World) -> None:
    first = today() + timedelta(days=20)
    made = await world.created(first_due_date=str(first), frequency="weekly", max_charges=3)
    one = f"/{made['schedule_id']}"
    for _ in range(2):
        paused = (await world.ask("POST", f"{one}/pause")).json()
        assert (paused["status"], paused["next_issue_at"]) == ("paused", None)
    await world.work(at(first + timedelta(days=8)))
    assert await world.charges(made["schedule_id"]) == []
    for _ in range(2):
        assert (await world.ask("POST", f"{one}/resume")).json()["status"] == "active"
    await world.work()
    numbers = await world.charges(made["schedule_id"])
    assert [(each["number"], each["state"]) for each in numbers] == [(1, "skipped"), (2, "skipped"), (3, "issued")]


async def test_concurrent_pauses_and_resumes_are_each_answered_with_their_own_status(world: World) -> None:
    one = f"/{(await world.created())['schedule_id']}"
    replies = await asyncio.gather(*(world.ask("POST", f"{one}/{change}") for change in ("pause", "resume") * 25))
    said = [(reply.status, reply.json().get("status")) for reply in replies]
    assert said == [(200, "paused"), (200, "active")] * 25, "each answer shows the status that its own request set"


async def test_a_cancelled_schedule_issues_no_more_charges_and_keeps_those_issued(world: World) -> None:
    first = today() + timedelta(days=20)
    made = await world.created(first_due_date=str(first), frequency="weekly")
    one = f"/{made['schedule_id']}"
    await world.work(at(first - timedelta(days=10)))
    for _ in range(2):
        cancelled = (await world.ask("POST", f"{one}/cancel")).json()
        assert (cancelled["status"], cancelled["next_due_date"]) == ("cancelled", None)
    await world.work(at(first + timedelta(days=30)))
    (issued,) = await world.charges(made["schedule_id"])
    assert issued["number"] == 1
    for change in ("pause", "resume"):
        assert (await world.ask("POST", f"{one}/{change}")).code() == "SCHEDULE_ENDED"


@pytest.mark.parametrize("method", ["pix", "boleto"])
@pytest.mark.parametrize("change", ["pause", "cancel"])
async def test_a_number_claimed_by_a_worker_is_not_issued_after_its_schedule_is_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch, method: str, change: str
) -> None:
    """The merchant who sees the schedule cancelled informs the payer: no charge may follow."""
    first = today() + timedelta(days=20)
    payer = PAYER if method == "pix" else {**PAYER, "address": ADDRESS}
    made = await world.created(payment_method=method, payer=payer, first_due_date=str(first), frequency="weekly")

    async def stopped_meanwhile(*args: Any, **more: Any) -> list[Any]:
        dues = await claim(*args, **more)
        if str(made["schedule_id"]) in {str(each.schedule_id) for each in dues}:
            assert (await world.ask("POST", f"/{made['schedule_id']}/{change}")).status == 200
        return dues

    monkeypatch.setattr("workers.schedules.claim", stopped_meanwhile)
    await world.work(at(first - timedelta(days=10)))
    monkeypatch.undo()
    await world.work(world.now + LEASE)
    assert await world.charges(made["schedule_id"]) == []
    assert not await world.context.pool.fetchval(
        "SELECT EXISTS (SELECT FROM charge_view WHERE doc ->> 'schedule_id' = $1)", made["schedule_id"]
    )
    if change == "pause":
        assert (await world.ask("POST", f"/{made['schedule_id']}/resume")).json()["status"] == "active"
        await world.work()
        (issued,) = await world.charges(made["schedule_id"])
        assert issued["state"] == "issued"


@pytest.mark.parametrize("method", ["pix", "boleto"])
async def test_a_number_claimed_by_a_worker_is_not_issued_after_its_account_is_blocked(
    world: World, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    first = today() + timedelta(days=20)
    payer = PAYER if method == "pix" else {**PAYER, "address": ADDRESS}
    made = await world.created(payment_method=method, payer=payer, first_due_date=str(first), frequency="weekly")
    kyc, account_id = "UPDATE account SET kyc = $2 WHERE account_id = $1", world.api.first.account_id

    async def blocked_meanwhile(*args: Any, **more: Any) -> list[Any]:
        dues = await claim(*args, **more)
        await world.context.pool.execute(kyc, account_id, "blocked")
        return dues

    monkeypatch.setattr("workers.schedules.claim", blocked_meanwhile)
    try:
        await world.work(at(first - timedelta(days=10)))
        assert await world.charges(made["schedule_id"]) == []
        assert (await world.get(made["schedule_id"]))["failure"]["code"] == "KYC_REQUIRED"
    finally:
        monkeypatch.undo()
        await world.context.pool.execute(kyc, account_id, "approved")
    await world.work(world.now + RETRIES[0])
    (issued,) = await world.charges(made["schedule_id"])
    assert issued["state"] == "issued"


async def test_a_number_without_kyc_shows_its_failure_and_is_retried_until_its_due_date_passes(world: World) -> None:
    first = today() + timedelta(days=20)
    made = await world.created(first_due_date=str(first), frequency="weekly", max_charges=2)
    pool = world.context.pool
    kyc = "UPDATE account SET kyc = $2 WHERE account_id = $1"
    await pool.execute(kyc, world.api.first.account_id, "pending")
    try:
        await world.work(at(first - timedelta(days=10)))
        failure = (await world.get(made["schedule_id"]))["failure"]
        assert failure["code"] == "KYC_REQUIRED"
        for hours in range(0, 24 * 11, 2):
            await world.work(at(first - timedelta(days=10)) + timedelta(hours=hours))
    finally:
        await pool.execute(kyc, world.api.first.account_id, "approved")
    await world.work(world.now + max(RETRIES))
    numbers = await world.charges(made["schedule_id"])
    assert [(each["number"], each["state"]) for each in numbers] == [(1, "failed"), (2, "issued")]
    assert numbers[0]["failure"]["code"] == "KYC_REQUIRED"


async def test_a_pix_number_waits_until_pix_is_resumed(world: World, pool: Pool) -> None:
    first = today() + timedelta(days=20)
    made = await world.created(first_due_date=str(first), max_charges=1)
    async with transaction(pool) as conn:
        await suspend_pix(conn, now=world.now)
    try:
        await world.work(at(first - timedelta(days=10)))
        assert (await world.get(made["schedule_id"]))["failure"]["code"] == "PIX_AVULSO_SUSPENDED"
    finally:
        async with transaction(pool) as conn:
            await resume_pix(conn)
    await world.work(world.now + RETRIES[0])
    assert [each["state"] for each in await world.charges(made["schedule_id"])] == ["issued"]


async def test_numbers_that_wait_for_pix_to_be_resumed_use_up_no_locations(world: World, pool: Pool) -> None:
    """Each location costs a call to the bank, and every number is retried until PIX is resumed."""
    first, ready = today() + timedelta(days=20), "SELECT sum(cardinality(locations)) FROM pix_location WHERE NOT test"
    await world.created(first_due_date=str(first), max_charges=1)
    before = await pool.fetchval(ready)
    async with transaction(pool) as conn:
        await suspend_pix(conn, now=world.now)
    try:
        await world.work(at(first - timedelta(days=10)))
        await world.work(world.now + RETRIES[0])
        assert await pool.fetchval(ready) == before
    finally:
        async with transaction(pool) as conn:
            await resume_pix(conn)
    await world.work(world.now + RETRIES[1])
    assert await pool.fetchval(ready) == before - 1


async def test_a_pix_charge_with_less_than_a_minute_to_pay_is_skipped(world: World) -> None:
    """Every PIX charge can be paid for at least a minute."""
    first = today() + timedelta(days=20)
    last = at(first, 23, 59)
    for begins, state in (
        (last + timedelta(seconds=59, milliseconds=500), "skipped"),
        (last - timedelta(seconds=1), "issued"),
    ):
        made = await world.created(first_due_date=str(first), max_charges=1, issue_days_before=0)
        assert (await world.ask("POST", f"/{made['schedule_id']}/pause")).status == 200
        world.now = at(first, 12)
        assert (await world.ask("POST", f"/{made['schedule_id']}/resume")).status == 200
        await world.work(begins)
        assert [each["state"] for each in await world.charges(made["schedule_id"])] == [state]


async def test_a_number_whose_idempotency_key_the_account_used_itself_fails(world: World) -> None:
    first = today() + timedelta(days=20)
    made = await world.created(first_due_date=str(first), frequency="weekly", max_charges=2)
    token = await world.api.token(mode="production")
    reply = await world.api.post(
        "/v1/charges/pix", world.api.pix(), token=token, key=f"schedule:{made['schedule_id']}:1"
    )
    assert reply.status == 201
    await world.work(at(first))
    numbers = await world.charges(made["schedule_id"])
    assert [(each["number"], each["state"]) for each in numbers] == [(1, "failed"), (2, "issued")]


async def test_charges_of_a_schedule_are_mailed_only_with_send_email(world: World) -> None:
    first = today() + timedelta(days=20)
    made = await world.created(first_due_date=str(first), max_charges=1, send_email=True)
    boleto = await world.created(
        payment_method="boleto", first_due_date=str(first), max_charges=1, send_email=True,
        payer={**PAYER, "address": ADDRESS},
    )  # fmt: skip
    silent = await world.created(first_due_date=str(first), max_charges=1)
    await world.work(at(first - timedelta(days=10)))
    # The bank stamps a boleto's registration with its own clock.
    await write_due_mails(world.context)
    for schedule_id, mails in ((made, 1), (boleto, 1), (silent, 0)):
        (issued,) = await world.charges(schedule_id["schedule_id"])
        count = "SELECT count(*) FROM mail WHERE charge_id = $1 AND kind = 'charge'"
        assert await world.context.pool.fetchval(count, UUID(issued["charge_id"])) == mails
        doc = await world.context.pool.fetchval(
            "SELECT doc FROM charge_view WHERE charge_id = $1", UUID(issued["charge_id"])
        )
        assert msgspec.json.decode(doc)["schedule_id"] == schedule_id["schedule_id"]


async def test_charges_of_a_schedule_are_listed_by_number_and_cursor(world: World) -> None:
    first = today() + timedelta(days=2)
    made = await world.created(first_due_date=str(first), frequency="weekly", max_charges=5, issue_days_before=30)
    other = await world.created(first_due_date=str(first))
    await world.work(at(first))
    seen, cursor = [], ""
    for _ in range(5):
        reply = await world.ask("GET", f"/{made['schedule_id']}/charges?limit=2{cursor}")
        page = reply.json()
        seen += [each["number"] for each in page["data"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [5, 4, 3, 2, 1]
    foreign = await world.ask("GET", f"/{other['schedule_id']}/charges?limit=2{cursor}")
    assert foreign.code() == "CURSOR_INVALID"


async def test_the_running_system_issues_what_is_due_by_itself(system: System) -> None:
    async with new_merchant(system) as merchant:
        client = merchant.production
        first = str(today() + timedelta(days=3))
        boleto = {"payment_method": "boleto", "payer": {**PAYER, "address": ADDRESS}}
        for more in ({}, boleto):
            body = schedule(first_due_date=first, max_charges=1, **more)
            made = await client.ask("POST", PATH, json=body, key=str(uuid4()))
            assert made.status == 201, made.raw
            path = f"{PATH}/{made.body['schedule_id']}"

            async def issued(path: str = path) -> Any:
                return (await client.get(f"{path}/charges")).body["data"]

            # A system that has just started may have no PIX location yet: the number is then retried after a minute.
            (number,) = await until_answer(issued, within_s=100)
            assert number["charge"]["status"] == "pending"
            assert (await client.get(path)).body["status"] == "finished"
            assert (await client.cancel(number["charge_id"])).status == 200
