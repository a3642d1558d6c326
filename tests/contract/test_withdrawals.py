"""Withdrawals over the API (contract section 13): answers, refusals, idempotency keys, and the wallet's entries.

No worker runs by itself: a withdrawal is pending until the test runs the worker.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from banks.simulated.bank import PRODUCTION, SimulatedBank
from banks.simulated.returns import ReturnRules
from commands.merchants.merchants import MerchantCreated, create_merchant
from commands.money.program_payouts import REFUND, WITHDRAWAL, ProgramPayout, note_payouts
from commands.money.reversals import BankReturn, book_reversals
from commands.people.tell import SecurityMail
from commands.webhooks.endpoint import choose_kinds, set_endpoint
from domain.brazilian import brl, moment
from domain.events import EventKind
from readmodels.documents.people_letter import security_letter
from readmodels.verify import verify
from runtime.postgres import Pool, transaction
from runtime.seal import MAIL_NOTE
from tests.contract.test_openapi import conforms
from tests.support.banking import BANK, SECRET_KEY, worker_context
from tests.support.in_process import Api, Reply, open_api
from tests.support.wallet import SEAL, balance_of, credit_wallet
from workers.context import Context
from workers.mail.sender import write_due_mails
from workers.orders.withdrawal import WithdrawalOrderWorker

PATH = "/v1/withdrawals"
ONE = PATH + "/{withdrawal_id}"
FIELDS = [
    "withdrawal_id", "account_id", "amount", "fee", "status", "version", "description", "external_id", "pix_key",
    "automatic", "end_to_end_id", "failure_code", "created_at", "completed_at", "test",
]  # fmt: skip


class Environment:
    """A merchant with 100.00 in his wallet, with his production credential, and the worker that sends withdrawals."""

    def __init__(self, api: Api, pool: Pool, context: Context, record: MerchantCreated) -> None:
        self.api = api
        self.pool = pool
        self.context = context
        self.record = record
        self.account_id = record.account_id

    async def token(self, scope: str | None = None, mode: str = "production") -> str:
        return await self.api.token(self.record, mode, scope)

    async def ask(self, body: Any = None, *, key: str | None = None, token: str | None = None) -> Reply:
        return await self.api.post(PATH, body, token=token or await self.token(), key=key or secrets.token_hex(8))

    async def withdraw(self, amount: str = "10.00", **more: Any) -> dict[str, Any]:
        reply = await self.ask({"amount": amount, **more})
        assert reply.status == 201, reply
        found: dict[str, Any] = reply.json()
        return found

    async def get(self, path: str = "", status: int = 200) -> Any:
        reply = await self.api.get(PATH + path, token=await self.token())
        assert reply.status == status, reply
        return reply.json()

    async def read(self, path: str) -> Any:
        reply = await self.api.get(path, token=await self.token())
        assert reply.status == 200, reply
        return reply.json()

    async def cancel(self, withdrawal_id: str) -> Reply:
        return await self.api.post(f"{PATH}/{withdrawal_id}/cancel", None, token=await self.token())

    async def balance(self) -> str:
        return str((await self.read(f"/v1/accounts/{self.account_id}/balance"))["balance"])

    async def run_worker(self) -> None:
        """Make the account's waiting orders due and run the worker."""
        await self.pool.execute(
            "UPDATE bank_order SET due_at = 'epoch' WHERE state = 'waiting' AND account_id = $1"
            " AND kind = 'withdrawal_send'", self.account_id,
        )  # fmt: skip
        await WithdrawalOrderWorker(self.context).drain()

    async def bank(self, *, fails: bool = False) -> None:
        """Have the simulated bank settle transfers at once, or fail them."""
        bank: Any = self.context.banks.production[BANK]
        await bank.transfers.set_rules(ReturnRules(settle_after_s=0, fails=fails))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(servers: Any) -> AsyncIterator[Api]:
    async with open_api(servers.database_url, servers.redis_url, SECRET_KEY=SECRET_KEY) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def context(pool: Pool, servers: Any) -> AsyncIterator[Context]:
    bank = SimulatedBank(pool, SEAL, world=PRODUCTION, url="https://bank.example.com", now=lambda: datetime.now(UTC))
    async with worker_context(pool, servers.redis_url, bank) as made:
        yield made


@pytest.fixture
async def env(api: Api, pool: Pool, context: Context) -> Environment:
    async with pool.acquire() as conn:
        record = await create_merchant(conn, name="Loja", address=True, kyc="approved", now=datetime.now(UTC))
    await credit_wallet(pool, record.account_id, 100_00)
    made = Environment(api, pool, context, record)
    await made.bank()
    return made


# Answers


async def test_a_withdrawal_is_answered_with_every_field_and_debits_the_balance(env: Environment) -> None:
    made = await env.withdraw("10.5", description="Aluguel", external_id="saque 7")
    assert list(made) == FIELDS
    assert UUID(made["withdrawal_id"]).version == 7
    assert made["created_at"].endswith("Z")
    key = str(env.account_id)
    assert {name: made[name] for name in FIELDS[1:] if name != "created_at"} == {
        "account_id": key, "amount": "10.50", "fee": "0.00", "status": "pending", "version": 1,
        "description": "Aluguel", "external_id": "saque 7", "pix_key": f"{key[:4]}***{key[-4:]}", "automatic": False,
        "end_to_end_id": None, "failure_code": None, "completed_at": None, "test": False,
    }  # fmt: skip
    assert await env.get(f"/{made['withdrawal_id']}") == made
    assert await env.balance() == "89.50"


async def test_a_withdrawal_is_sent_to_the_accounts_own_key_and_reported_by_an_event(env: Environment) -> None:
    made = await env.withdraw("30.00", description="Açaí & cia", external_id="s1")
    await env.run_worker()
    found = await env.get(f"/{made['withdrawal_id']}")
    assert (found["status"], found["failure_code"]) == ("succeeded", None)
    sent = await env.pool.fetchrow("SELECT * FROM simulated_transfer WHERE id = $1", UUID(made["withdrawal_id"]).hex)
    assert sent is not None
    document = await env.pool.fetchval("SELECT document FROM account WHERE account_id = $1", env.account_id)
    assert (sent["pix_key"], sent["document"], sent["amount_cents"]) == (str(env.account_id), document, 30_00)
    assert found["end_to_end_id"] == sent["end_to_end_id"]
    assert found["completed_at"] >= found["created_at"]
    event = (await env.read("/v1/events?limit=1"))["data"][0]
    assert event == {
        "event": "withdrawal.succeeded", "event_id": event["event_id"], "withdrawal_id": made["withdrawal_id"],
        "account_id": str(env.account_id), "status": "succeeded", "amount": "30.00", "external_id": "s1",
        "test": False, "end_to_end_id": found["end_to_end_id"], "failure_code": None,
        "completed_at": found["completed_at"], "version": 3, "type": "withdrawal.succeeded", "sequence": 2,
        "created_at": event["created_at"],
    }  # fmt: skip
    assert (await env.read("/v1/events?type=withdrawal.succeeded"))["data"] == [event]
    assert (await env.read("/v1/events?external_id=s1"))["data"] == [event]


async def test_a_failed_withdrawal_is_credited_back_and_shows_its_failure_code(env: Environment) -> None:
    made = await env.withdraw("30.00")
    assert await env.balance() == "70.00"
    await env.bank(fails=True)
    await env.run_worker()
    found = await env.get(f"/{made['withdrawal_id']}")
    assert (found["status"], found["failure_code"], found["end_to_end_id"]) == ("failed", "NOT_CARRIED_OUT", None)
    assert await env.balance() == "100.00"
    event = (await env.read("/v1/events?type=withdrawal.failed"))["data"][0]
    assert (event["status"], event["failure_code"], event["sequence"]) == ("failed", "NOT_CARRIED_OUT", 2)
    assert "charge_id" not in event
    assert "external_id" not in event


async def test_each_ledger_entry_of_a_withdrawal_names_it(env: Environment) -> None:
    first, second, third = [await env.withdraw(each, external_id="x") for each in ("10.00", "20.00", "30.00")]
    await env.cancel(second["withdrawal_id"])
    await env.bank(fails=True)
    await env.run_worker()
    lines = (await env.read(f"/v1/accounts/{env.account_id}/ledger?order=asc"))["data"]
    assert [(line["type"], line["direction"], line["amount"], line["balance_after"]) for line in lines[:5]] == [
        ("payment", "credit", "100.00", "100.00"),
        ("withdrawal", "debit", "10.00", "90.00"),
        ("withdrawal", "debit", "20.00", "70.00"),
        ("withdrawal", "debit", "30.00", "40.00"),
        ("withdrawal_reversal", "credit", "20.00", "60.00"),
    ]
    assert sorted(line["withdrawal_id"] for line in lines[5:]) == sorted(
        [first["withdrawal_id"], third["withdrawal_id"]]
    )
    assert lines[4]["withdrawal_id"] == second["withdrawal_id"]
    assert {line["external_id"] for line in lines[1:]} == {"x"}
    assert {line["charge_id"] for line in lines[1:]} == {None}
    assert lines[-1]["balance_after"] == await env.balance() == "100.00"


async def test_withdrawal_events_are_delivered_only_to_endpoints_that_subscribed(env: Environment) -> None:
    async with transaction(env.pool) as conn:
        await set_endpoint(
            conn, env.account_id, "https://loja.example.com/hook", allow_private=False, now=datetime.now(UTC),
            seal=SEAL, chance=secrets.token_bytes(32),
        )  # fmt: skip
    await env.withdraw("9.00")
    await env.run_worker()
    async with transaction(env.pool) as conn:
        await choose_kinds(conn, env.account_id, [EventKind.WITHDRAWAL_SUCCEEDED, EventKind.WITHDRAWAL_FAILED])
    await env.withdraw("10.00")
    await env.run_worker()
    await env.bank(fails=True)
    await env.withdraw("11.00")
    await env.run_worker()
    reply = await env.api.get("/v1/webhook-deliveries", token=await env.token())
    deliveries = [(each["type"], each["charge_id"], each["sequence"]) for each in reply.json()["data"]]
    assert deliveries == [("withdrawal.failed", None, 4), ("withdrawal.succeeded", None, 3)]


# Keys


async def test_twenty_equal_requests_at_once_make_one_withdrawal(env: Environment) -> None:
    key = secrets.token_hex(8)
    replies = await asyncio.gather(*(env.ask({"amount": "10.00"}, key=key) for _ in range(20)))
    assert sorted(reply.status for reply in replies) == [200] * 19 + [201]
    assert len({reply.json()["withdrawal_id"] for reply in replies}) == 1
    assert await env.balance() == "90.00"


async def test_a_replay_answers_the_withdrawal_as_it_is_now_also_after_kyc_was_rejected(env: Environment) -> None:
    key = secrets.token_hex(8)
    made = (await env.ask({"amount": "100.00"}, key=key)).json()
    await env.run_worker()
    await env.pool.execute("UPDATE account SET kyc = 'rejected' WHERE account_id = $1", env.account_id)
    again = await env.ask({"amount": "100.00"}, key=key)
    assert (again.status, again.header("idempotent-replayed"), again.header("idempotency-key")) == (200, "true", key)
    assert again.json() == await env.get(f"/{made['withdrawal_id']}")
    assert again.json()["status"] == "succeeded"
    assert (await env.ask({"amount": "99.00"}, key=key)).code() == "IDEMPOTENCY_KEY_REUSED"
    reply = await env.api.get(f"/v1/idempotency-keys/{key}", token=await env.token())
    assert (reply.json()["resource_type"], reply.json()["resource_id"], reply.json()["replay_count"]) == (
        "withdrawal", made["withdrawal_id"], 1,
    )  # fmt: skip


async def test_a_refused_withdrawal_does_not_use_up_its_key(env: Environment) -> None:
    key = secrets.token_hex(8)
    assert (await env.ask({"amount": "100.01"}, key=key)).code() == "INSUFFICIENT_BALANCE"
    await credit_wallet(env.pool, env.account_id, 1)
    assert (await env.ask({"amount": "100.01"}, key=key)).status == 201
    assert await env.balance() == "0.00"


# Refusals


@pytest.mark.parametrize("amount", [None, 10, "", "0.00", "-1.00", "1.001", "1e3", "٣", "99999999999.00", ["10.00"]])
async def test_an_invalid_or_missing_amount_is_amount_invalid(env: Environment, amount: Any) -> None:
    assert (await env.ask({"amount": amount})).code() == "AMOUNT_INVALID"
    assert (await env.ask({})).code() == "AMOUNT_INVALID"


@pytest.mark.parametrize(("amount", "status"), [("0.99", 422), ("1.00", 201), ("1", 201)])
async def test_the_minimum_of_a_withdrawal_is_one_real(env: Environment, amount: str, status: int) -> None:
    reply = await env.ask({"amount": amount})
    assert reply.status == status
    if status == 422:
        assert reply.code() == "WITHDRAWAL_BELOW_MINIMUM"


async def test_concurrent_withdrawals_never_exceed_the_balance(env: Environment) -> None:
    replies = await asyncio.gather(*(env.ask({"amount": "30.00"}) for _ in range(8)))
    assert sorted(reply.status for reply in replies) == [201] * 3 + [422] * 5
    assert {reply.code() for reply in replies if reply.status == 422} == {"INSUFFICIENT_BALANCE"}
    assert await env.balance() == "10.00"
    lines = (await env.read(f"/v1/accounts/{env.account_id}/ledger?order=asc"))["data"]
    assert [line["sequence"] for line in lines] == [1, 2, 3, 4]


async def test_a_balance_made_negative_by_the_bank_is_answered_as_such_and_cannot_be_withdrawn(
    env: Environment,
) -> None:
    await env.withdraw("60.00")
    (payment,) = await env.pool.fetch("SELECT source, charge_id FROM payment WHERE account_id = $1", env.account_id)
    source, charge_id = payment
    returned = BankReturn(
        position=0, charge_id=charge_id, boleto_number=None, end_to_end_id=source, refund_id=None, bank_id="D1",
        return_id=None, amount_cents=100_00,
    )  # fmt: skip
    async with transaction(env.pool) as conn:
        assert await book_reversals(conn, [returned], bank=BANK, now=datetime.now(UTC)) == 1
    assert await env.balance() == "-60.00"
    (newest, *_) = (await env.read(f"/v1/accounts/{env.account_id}/ledger"))["data"]
    assert (newest["type"], newest["direction"], newest["amount"], newest["balance_after"]) == (
        "adjustment", "debit", "100.00", "-60.00",
    )  # fmt: skip
    assert (await env.ask({"amount": "1.00"})).code() == "INSUFFICIENT_BALANCE"


async def test_an_account_without_kyc_cannot_withdraw_but_can_read_and_cancel(env: Environment) -> None:
    made = await env.withdraw("10.00")
    await env.pool.execute("UPDATE account SET kyc = 'pending' WHERE account_id = $1", env.account_id)
    assert (await env.ask({"amount": "10.00"})).code() == "KYC_REQUIRED"
    assert (await env.ask({"amount": "0.10"})).code() == "KYC_REQUIRED"
    assert (await env.get(f"/{made['withdrawal_id']}"))["status"] == "pending"
    assert (await env.cancel(made["withdrawal_id"])).status == 200


async def test_an_account_without_a_registered_pix_key_cannot_withdraw(env: Environment) -> None:
    await env.pool.execute("UPDATE account SET pix_key = '' WHERE account_id = $1", env.account_id)
    reply = await env.ask({"amount": "10.00"})
    assert reply.code() == "VALIDATION_ERROR"
    assert [each["field"] for each in reply.json()["error"]["fields"]] == ["pix_key"]
    assert await env.balance() == "100.00"


@pytest.mark.parametrize(
    ("pix_key", "shown"),
    [
        ("52998224725", "***.982.247-**"),
        ("12345678000195", "12.***.***/0001-**"),
        ("maria@example.com", "m***@example.com"),
        ("+5511987654321", "+551***4321"),
    ],
)
async def test_the_pix_key_of_a_withdrawal_is_masked_and_not_in_the_journal(
    env: Environment, pix_key: str, shown: str
) -> None:
    await env.pool.execute("UPDATE account SET pix_key = $2 WHERE account_id = $1", env.account_id, pix_key)
    made = await env.withdraw("1.00")
    assert made["pix_key"] == shown
    written = await env.pool.fetchval(
        "SELECT string_agg(payload::text, '') FROM journal WHERE account_id = $1", env.account_id
    )
    assert pix_key not in written


async def test_a_withdrawal_is_sent_to_the_key_registered_at_its_creation(env: Environment) -> None:
    made = await env.withdraw("10.00")
    await env.pool.execute("UPDATE account SET pix_key = 'x@example.com' WHERE account_id = $1", env.account_id)
    await env.run_worker()
    sent = await env.pool.fetchval(
        "SELECT pix_key FROM simulated_transfer WHERE id = $1", UUID(made["withdrawal_id"]).hex
    )
    assert sent == str(env.account_id)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"amount": "10.00", "description": 1}, "description"),
        ({"amount": "10.00", "external_id": "x" * 256}, "external_id"),
        ({"amount": "10.00", "external_id": "a\x00b"}, "external_id"),
    ],
)
async def test_a_malformed_field_of_a_withdrawal_is_refused_by_its_name(
    env: Environment, body: Any, field: str
) -> None:
    reply = await env.ask(body)
    assert reply.code() == "VALIDATION_ERROR"
    assert [each["field"] for each in reply.json()["error"]["fields"]] == [field]


# Cancelling


async def test_a_pending_withdrawal_is_cancelled_and_never_sent(env: Environment) -> None:
    made = await env.withdraw("40.00")
    reply = await env.cancel(made["withdrawal_id"])
    assert reply.status == 200
    found = reply.json()
    assert (found["status"], found["version"]) == ("cancelled", 2)
    assert found["completed_at"] is not None
    assert await env.balance() == "100.00"
    await env.run_worker()
    assert await env.get(f"/{made['withdrawal_id']}") == found
    assert (
        await env.pool.fetchval(
            "SELECT count(*) FROM simulated_transfer WHERE id = $1", UUID(made["withdrawal_id"]).hex
        )
        == 0
    )
    assert (await env.cancel(made["withdrawal_id"])).code() == "WITHDRAWAL_NOT_CANCELLABLE"
    assert await env.balance() == "100.00"


async def test_a_withdrawal_that_was_sent_to_the_bank_cannot_be_cancelled(env: Environment) -> None:
    made = await env.withdraw("40.00")
    bank: Any = env.context.banks.production[BANK]
    await bank.transfers.set_rules(ReturnRules(settle_after_s=60, fails=False))
    await env.run_worker()
    assert (await env.get(f"/{made['withdrawal_id']}"))["status"] == "processing"
    assert (await env.cancel(made["withdrawal_id"])).code() == "WITHDRAWAL_NOT_CANCELLABLE"
    assert await env.balance() == "60.00"


async def test_concurrent_cancellations_credit_the_withdrawal_back_once(env: Environment) -> None:
    made = await env.withdraw("40.00")
    replies = await asyncio.gather(*(env.cancel(made["withdrawal_id"]) for _ in range(5)))
    assert sorted(reply.status for reply in replies) == [200] + [409] * 4
    assert await env.balance() == "100.00"


async def test_a_withdrawal_cancelled_while_the_worker_sends_is_either_sent_or_cancelled(env: Environment) -> None:
    made = [await env.withdraw("1.00") for _ in range(12)]
    sending = asyncio.create_task(env.run_worker())
    replies = await asyncio.gather(*(env.cancel(each["withdrawal_id"]) for each in made))
    await sending
    await env.run_worker()
    cancelled = sum(reply.status == 200 for reply in replies)
    sent = await env.pool.fetchval(
        "SELECT count(*) FROM simulated_transfer WHERE id = ANY($1)",
        [UUID(each["withdrawal_id"]).hex for each in made],
    )
    assert (cancelled + sent, await balance_of(env.pool, env.account_id)) == (12, 100_00 - 100 * sent)


@pytest.mark.parametrize("withdrawal_id", ["x", "00000000-0000-7000-8000-000000000000"])
async def test_an_unknown_withdrawal_is_not_found(env: Environment, withdrawal_id: str) -> None:
    reply = await env.api.get(f"{PATH}/{withdrawal_id}", token=await env.token())
    assert reply.code() == "WITHDRAWAL_NOT_FOUND"
    assert (await env.cancel(withdrawal_id)).code() == "WITHDRAWAL_NOT_FOUND"


async def test_a_withdrawal_of_another_account_is_answered_like_an_unknown_id(env: Environment) -> None:
    made = await env.withdraw("10.00")
    other = await env.api.token(env.api.second, "production")
    unknown = await env.api.get(f"{PATH}/{uuid4()}", token=other)
    theirs = await env.api.get(f"{PATH}/{made['withdrawal_id']}", token=other)
    assert (theirs.status, theirs.code()) == (unknown.status, unknown.code()) == (404, "WITHDRAWAL_NOT_FOUND")
    reply = await env.api.post(f"{PATH}/{made['withdrawal_id']}/cancel", None, token=other)
    assert reply.code() == "WITHDRAWAL_NOT_FOUND"
    listed = await env.api.get(f"{PATH}?limit=100", token=other)
    assert made["withdrawal_id"] not in str(listed.json())


# Modes and scopes


async def test_a_test_credential_gets_sandbox_only_before_any_other_refusal(env: Environment) -> None:
    narrow = await env.token("charges:read", "test")
    for token in (await env.token(mode="test"), narrow):
        replies = [
            await env.api.post(PATH, {"amount": "x"}, token=token),
            await env.api.post(PATH, b"{", token=token, key="k"),
            await env.api.get(PATH + "?nope=1", token=token),
            await env.api.get(f"{PATH}/x", token=token),
            await env.api.post(f"{PATH}/x/cancel", None, token=token),
        ]
        assert {reply.code() for reply in replies} == {"SANDBOX_ONLY"}


async def test_each_withdrawal_route_requires_its_scope(env: Environment) -> None:
    reading, acting = await env.token("payments:read"), await env.token("withdrawals:create")
    made = await env.withdraw("10.00")
    one = f"{PATH}/{made['withdrawal_id']}"
    assert (await env.ask({"amount": "10.00"}, token=reading)).code() == "INSUFFICIENT_SCOPE"
    assert (await env.api.post(one + "/cancel", None, token=reading)).code() == "INSUFFICIENT_SCOPE"
    assert (await env.api.get(PATH, token=acting)).code() == "INSUFFICIENT_SCOPE"
    assert (await env.api.get(one, token=acting)).code() == "INSUFFICIENT_SCOPE"
    assert (await env.api.get(one, token=reading)).status == 200
    assert (await env.api.post(one + "/cancel", None, token=acting)).status == 200
    assert (await env.ask({"amount": "10.00"}, token=acting)).status == 201
    assert (await env.api.post(PATH, {"amount": "1.00"}, token=acting)).code() == "IDEMPOTENCY_KEY_REQUIRED"


# The list


async def test_the_list_pages_through_all_withdrawals_in_either_order(env: Environment) -> None:
    made = [(await env.withdraw("1.00", external_id=f"n{number}"))["withdrawal_id"] for number in range(7)]
    for order, wanted in (("asc", made), ("desc", made[::-1])):
        walked: list[str] = []
        cursor = ""
        for _ in range(4):
            page = await env.get(f"?limit=3&order={order}{cursor}")
            walked += [each["withdrawal_id"] for each in page["data"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert walked == wanted
    assert len((await env.get())["data"]) == 7


async def test_each_filter_of_the_withdrawal_list_returns_exactly_the_matching_ones(env: Environment) -> None:
    done, cancelled, pending = [await env.withdraw("1.00", external_id=each) for each in "abc"]
    await env.cancel(cancelled["withdrawal_id"])
    await env.pool.execute(
        "UPDATE bank_order SET due_at = 'infinity' WHERE order_id = $1", UUID(pending["withdrawal_id"])
    )
    await env.pool.execute("UPDATE bank_order SET due_at = 'epoch' WHERE order_id = $1", UUID(done["withdrawal_id"]))
    await WithdrawalOrderWorker(env.context).drain()

    async def listed(query: str) -> list[str]:
        return [each["external_id"] for each in (await env.get(f"?order=asc&{query}"))["data"]]

    assert await listed("status=succeeded") == ["a"]
    assert await listed("status=pending&status=cancelled") == ["b", "c"]
    assert await listed("external_id=b") == ["b"]
    assert await listed("external_id=b&status=pending") == []
    today = (datetime.now(UTC) - timedelta(hours=3)).date()
    assert await listed(f"created_from={today}&created_to={today}") == ["a", "b", "c"]
    assert await listed(f"created_from={today + timedelta(days=1)}") == []
    assert await listed(f"created_to={today - timedelta(days=1)}&status=pending") == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("status=paid", "VALIDATION_ERROR"), ("nope=1", "VALIDATION_ERROR"), ("limit=0", "LIMIT_INVALID"),
        ("cursor=x", "CURSOR_INVALID"), ("created_from=2026-02-30", "DATE_RANGE_INVALID"),
        ("created_from=2026-02-02&created_to=2026-02-01", "DATE_RANGE_INVALID"),
    ],
)  # fmt: skip
async def test_an_invalid_filter_of_the_withdrawal_list_is_refused(env: Environment, query: str, code: str) -> None:
    reply = await env.api.get(f"{PATH}?{query}", token=await env.token())
    assert reply.code() == code


async def test_a_withdrawal_cursor_is_refused_with_other_filters_or_on_another_list(env: Environment) -> None:
    for _ in range(3):
        await env.withdraw("1.00")
    cursor = (await env.get("?limit=1"))["next_cursor"]
    for query in (f"?cursor={cursor}&status=pending", f"?cursor={cursor}&order=asc"):
        reply = await env.api.get(PATH + query, token=await env.token())
        assert reply.code() == "CURSOR_INVALID"
    assert (await env.api.get(f"/v1/refunds?cursor={cursor}", token=await env.token())).code() == "CURSOR_INVALID"


# The OpenAPI document, the books, mail


async def test_answers_of_the_withdrawal_routes_conform_to_the_openapi_document(env: Environment) -> None:
    document = (await env.api.get("/v1/openapi.json", token=None)).json()
    token = await env.token()

    async def post(path: str, real: str, given: Any, *, key: str | None = None) -> Reply:
        reply = await env.api.post(real, given, token=token, key=key)
        conforms(document, "post", path, reply)
        return reply

    key = secrets.token_hex(8)
    made = (await post(PATH, PATH, {"amount": "2.00", "description": "x"}, key=key)).json()
    await post(PATH, PATH, {"amount": "2.00", "description": "x"}, key=key)
    await post(PATH, PATH, {"amount": "3.00"}, key=key)
    for amount in ("0.50", "1000.00", "x"):
        await post(PATH, PATH, {"amount": amount}, key=secrets.token_hex(8))
    await post(PATH, PATH, {"amount": "1.00"})
    cancel = ONE + "/cancel"
    for _ in range(2):
        await post(cancel, f"{PATH}/{made['withdrawal_id']}/cancel", None)
    await post(cancel, f"{PATH}/x/cancel", None)
    await env.withdraw("5.00")
    await env.run_worker()
    await env.bank(fails=True)
    failed = await env.withdraw("5.00")
    await env.run_worker()
    for withdrawal_id in (made["withdrawal_id"], failed["withdrawal_id"], "x"):
        conforms(document, "get", ONE, await env.api.get(f"{PATH}/{withdrawal_id}", token=token))
    for path in (PATH, "/v1/events", "/v1/webhook-deliveries"):
        conforms(document, "get", path, await env.api.get(path, token=token))
    ledger = "/v1/accounts/{account_id}/ledger"
    conforms(document, "get", ledger, await env.api.get(ledger.format(account_id=env.account_id), token=token))
    test = await env.token(mode="test")
    conforms(document, "get", PATH, await env.api.get(PATH, token=test))
    conforms(document, "post", PATH, await env.api.post(PATH, {"amount": "1.00"}, token=test, key="k"))


async def test_ledger_and_balance_agree_after_withdrawals(pool: Pool, servers: Any, env: Environment) -> None:
    found = await verify(servers.database_url)
    assert [each for each in found if "withdrawal" in each.table + each.what] == []
    mine = await pool.fetchrow(
        "SELECT (SELECT sum(amount_cents) FROM read_ledger WHERE account_id = $1) AS lines,"
        " (SELECT balance_cents FROM account_clock WHERE account_id = $1 AND NOT test) AS balance", env.account_id,
    )  # fmt: skip
    assert mine is not None
    assert mine["lines"] == mine["balance"]


async def test_owners_are_mailed_about_withdrawals_by_a_credential_at_once_then_hourly(env: Environment) -> None:
    await env.pool.execute(
        "INSERT INTO dashboard_user (email, account_id, role, created_at) VALUES ($1, $2, 'owner', now())",
        f"{secrets.token_hex(6)}@example.com", env.account_id,
    )  # fmt: skip

    async def mails_written_by(at: datetime) -> list[tuple[str, dict[str, str]]]:
        """The mails written by then. Asserts that each owner gets each mail once."""
        env.context.now = lambda: at
        await asyncio.gather(*(write_due_mails(env.context) for _ in range(3)))
        rows = await env.pool.fetch(
            "SELECT mail_id, note_sealed FROM mail WHERE account_id = $1 AND kind = 'security'", env.account_id
        )
        await env.pool.execute("DELETE FROM mail WHERE account_id = $1", env.account_id)
        notes = [env.context.seal.open(row["note_sealed"], MAIL_NOTE, row["mail_id"]) for row in rows]
        owners = await env.pool.fetchval(
            "SELECT count(*) FROM dashboard_user WHERE account_id = $1 AND role = 'owner'", env.account_id
        )
        letters = sorted(set(notes))
        assert len(notes) == len(letters) * owners
        found = [msgspec.json.decode(each, type=SecurityMail) for each in letters]
        return [(each.kind, each.facts) for each in found]

    by = f"credencial {env.record.production.client_id}"
    key = secrets.token_hex(8)
    for _ in range(2):
        await env.ask({"amount": "1.00"}, key=key)  # the second one is a replay
    began = datetime.now(UTC)
    assert await mails_written_by(began + timedelta(seconds=5)) == [
        ("program.withdrawals", {"count": "1", "amount": brl(100), "by": by})
    ]
    first_at = await env.pool.fetchval("SELECT since FROM program_payout WHERE account_id = $1", env.account_id)
    await env.withdraw("2.00")
    since = await env.pool.fetchval(
        "UPDATE program_payout SET since = since - interval '10 minutes' WHERE account_id = $1 RETURNING since",
        env.account_id,
    )
    assert since + timedelta(minutes=10) > first_at, "the first withdrawal was mailed"
    await env.withdraw("2.00")
    async with transaction(env.pool) as conn:
        await note_payouts(conn, WITHDRAWAL, [ProgramPayout(env.account_id, 200, "another")], now=began)
    assert await mails_written_by(began + timedelta(minutes=59)) == []
    ((kind, facts),) = await mails_written_by(began + timedelta(minutes=61))
    assert facts["since"] == moment(since), "the time of the first withdrawal since the last mail"
    assert (kind, facts["count"], facts["amount"]) == ("program.withdrawals", "3", brl(600))
    assert facts["by"] == f"credenciais {', '.join(sorted(['another', env.record.production.client_id]))}"
    letter = security_letter(kind=kind, at=began, facts=facts, account="Loja", app_url="https://app", staff=False)
    assert {"Quantidade", "Valor", "Desde", "Quem fez"} <= set(dict(letter.facts))
    assert await mails_written_by(began + timedelta(hours=9)) == []
    await env.withdraw("2.00")
    async with transaction(env.pool) as conn:
        batch = [ProgramPayout(env.account_id, cents, "another") for cents in (70, 5)]
        await note_payouts(conn, REFUND, batch, now=began)
    written = await mails_written_by(began + timedelta(hours=9))
    assert {kind: (facts["count"], facts["amount"]) for kind, facts in written} == {
        "program.refunds": ("2", brl(75)), "program.withdrawals": ("1", brl(200))
    }, "an hour without mails has passed"  # fmt: skip
    assert {kind: facts["by"] for kind, facts in written} == {
        "program.refunds": "credencial another", "program.withdrawals": by
    }, "a credential is named in the mail about its own payouts only"  # fmt: skip
