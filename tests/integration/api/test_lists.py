"""Lists: each filter selects what it names, limits and cursors are read strictly, and paging neither misses nor repeats
a row."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from yarl import URL

from domain.instants import SAO_PAULO
from tests.support.boleto_merchant import issue_boleto_in_the_past
from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    book_bank_payments,
    create_charge_in_the_past,
    database_of,
    new_merchant,
)
from tests.support.system import System

LISTS = ("charges", "payments", "events", "ledger")
CPF = "52998224725"
_WALKS_MAX = 20


class ListedMerchant(NamedTuple):
    """A merchant with pending, paid, cancelled and expired charges, two of them from two days ago."""

    merchant: ApiMerchant
    client: ApiClient
    pending: str
    paid: str
    cancelled: str
    expired: str
    overpaid: str
    today: date
    """The day in São Paulo when they were created; the tests may run on the next."""

    def day(self, days_ago: int = 0) -> str:
        return (self.today - timedelta(days=days_ago)).isoformat()

    def path(self, name: str) -> str:
        return f"/v1/accounts/{self.client.account_id}/ledger" if name == "ledger" else f"/v1/{name}"

    async def ids(self, name: str, **asked: Any) -> list[str]:
        return [row["charge_id"] for row in await self.client.all(self.path(name), limit=2, **asked)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def listed(system: System) -> AsyncIterator[ListedMerchant]:
    async with new_merchant(system) as merchant, database_of(system) as books:
        client, today = merchant.sandbox, datetime.now(SAO_PAULO).date()
        ago_s = 2 * 86_400.0
        expired = await create_charge_in_the_past(
            books, client, test=True, ago_s=ago_s, lifetime_s=60, external_id="old"
        )
        assert (await client.charge(expired))["status"] == "expired"
        overpaid = await create_charge_in_the_past(
            books, client, test=True, ago_s=ago_s, lifetime_s=7 * ago_s, external_id="old"
        )
        two_days_ago = datetime.now(UTC) - timedelta(seconds=ago_s - 1)
        await book_bank_payments(system, books, overpaid, 1500, paid_at=two_days_ago)
        pending = (await client.created(external_id="new", payer={"document": CPF}))["charge_id"]
        paid = (await client.paid("20.00", external_id="new", payer={"document": CPF}))["charge_id"]
        cancelled = (await client.created(external_id="other"))["charge_id"]
        await client.cancel(cancelled)
        yield ListedMerchant(merchant, client, pending, paid, cancelled, expired, overpaid, today)


async def test_every_filter_of_charges_selects_the_right_ones(listed: ListedMerchant) -> None:
    newest_first = [listed.cancelled, listed.paid, listed.pending]
    two_days_ago = await listed.ids("charges", created_to=listed.day(1))
    assert sorted(two_days_ago) == sorted([listed.expired, listed.overpaid])
    everything = [*newest_first, *two_days_ago]
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({}, everything),
        ({"order": "desc"}, everything),
        ({"order": "asc"}, everything[::-1]),
        ({"status": "pending"}, [listed.pending]),
        ({"status": ["paid", "cancelled"]}, [listed.cancelled, listed.paid, listed.overpaid]),
        ({"status": ["paid", "paid"], "order": "asc"}, [listed.overpaid, listed.paid]),
        ({"status": ["refunded", "failed"]}, []),
        ({"payment_method": "pix"}, everything),
        ({"payment_method": ["boleto", "boleto_hibrido", "boleto_pix"]}, []),
        ({"payment_method": ["boleto", "pix"], "status": "cancelled"}, [listed.cancelled]),
        ({"external_id": "new"}, [listed.paid, listed.pending]),
        ({"external_id": "old", "status": "paid"}, [listed.overpaid]),
        ({"external_id": "nobody's"}, []),
        ({"payer_document": CPF}, [listed.paid, listed.pending]),
        ({"payer_document": CPF, "status": "paid"}, [listed.paid]),
        ({"payer_document": f"{CPF[:3]}.{CPF[3:6]}.{CPF[6:9]}-{CPF[9:]}"}, [listed.paid, listed.pending]),
        ({"payer_document": "11144477735"}, []),
        ({"payer_document": "-"}, []),
        ({"txid": listed.paid.replace("-", "")}, [listed.paid]),
        ({"txid": listed.paid.replace("-", ""), "status": "pending"}, []),
        ({"txid": listed.paid.replace("-", ""), "external_id": "new", "payer_document": CPF}, [listed.paid]),
        ({"txid": listed.paid.replace("-", ""), "external_id": "old"}, []),
        ({"txid": listed.paid.replace("-", ""), "due_to": listed.day()}, []),
        ({"payer_document": CPF, "external_id": "new", "order": "asc"}, [listed.pending, listed.paid]),
        ({"txid": "BOLETO1"}, []),
        ({"nosso_numero": "31285570000000001"}, []),
        ({"integrador_code": "INTG-AAAAAA"}, []),
        ({"created_from": listed.day()}, newest_first),
        ({"created_from": listed.day(2), "created_to": listed.day(2)}, two_days_ago),
        ({"created_from": listed.day(-1)}, []),
        ({"status": "paid", "created_to": listed.day(1)}, [listed.overpaid]),
        ({"due_from": listed.day()}, []),
        ({"due_to": listed.day(), "status": "pending"}, []),
        # The last day of the calendar is a valid bound; a charge without due date is not due by then either.
        ({"due_to": "9999-12-31"}, []),
        ({"external_id": "new", "due_to": "9999-12-31"}, []),
        ({"external_id": "new", "due_from": "9999-12-31", "due_to": "9999-12-31"}, []),
        ({"txid": listed.paid.replace("-", ""), "due_to": "9999-12-31"}, []),
    ]
    for asked, charge_ids in expected:
        assert await listed.ids("charges", **asked) == charge_ids, asked


async def test_the_id_of_a_boleto_is_not_found_as_a_txid(system: System) -> None:
    """The txid of a PIX charge is its id without the dashes. A boleto has no txid, or one that its bank chose."""
    async with new_merchant(system) as merchant, database_of(system) as books:
        client = merchant.sandbox
        boleto = await issue_boleto_in_the_past(
            system, books, client, test=True, due_on=datetime.now(SAO_PAULO).date() + timedelta(days=9)
        )
        txid = boleto.replace("-", "")
        assert [row["charge_id"] for row in await client.all("/v1/charges")] == [boleto]
        assert await client.all("/v1/charges", txid=txid) == []
        summary = (await client.get("/v1/charges/summary", txid=txid)).body["data"]
        assert {row["count"] for row in summary} == {0}


async def test_the_summary_counts_the_charges_that_the_list_shows(listed: ListedMerchant) -> None:
    for asked in (
        {},
        {"external_id": "new"},
        {"status": ["paid", "expired"]},
        {"created_to": listed.day(1)},
        {"due_to": listed.day()},
        {"external_id": "new", "due_to": "9999-12-31"},
    ):
        rows = await listed.client.all("/v1/charges", **asked)
        summary = (await listed.client.get("/v1/charges/summary", **asked)).body["data"]
        assert {row["status"]: (row["count"], row["amount"]) for row in summary if row["count"]} == {
            status: (
                sum(row["status"] == status for row in rows),
                f"{sum(int(float(row['amount'])) for row in rows if row['status'] == status)}.00",
            )
            for status in {row["status"] for row in rows}
        }
        assert [row["status"] for row in summary] == ["pending", "paid", "expired", "cancelled", "refunded", "failed"]


async def test_every_filter_of_payments_selects_the_right_ones(listed: ListedMerchant) -> None:
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({}, [listed.paid, listed.overpaid]),
        ({"order": "asc"}, [listed.overpaid, listed.paid]),
        ({"paid_from": listed.day()}, [listed.paid]),
        ({"paid_to": listed.day(1)}, [listed.overpaid]),
        ({"paid_from": listed.day(2), "paid_to": listed.day()}, [listed.paid, listed.overpaid]),
        ({"charge_id": listed.paid}, [listed.paid]),
        ({"charge_id": listed.pending}, []),
        ({"external_id": "old"}, [listed.overpaid]),
        ({"external_id": "old", "charge_id": listed.paid}, []),
        ({"method": "pix"}, [listed.paid, listed.overpaid]),
        ({"method": "boleto"}, []),
        ({"anomaly": "amount_mismatch"}, [listed.overpaid]),
        ({"anomaly": "amount_mismatch", "paid_from": listed.day()}, []),
        ({"anomaly": "amount_mismatch", "method": "boleto"}, []),
        ({"anomaly": "duplicate"}, []),
    ]
    for asked, charge_ids in expected:
        assert await listed.ids("payments", **asked) == charge_ids, asked


async def test_every_filter_of_events_selects_the_right_ones(listed: ListedMerchant) -> None:
    received, anomaly, expired, cancelled = "payment.received", "payment.anomaly", "charge.expired", "charge.cancelled"
    in_order = [
        (listed.expired, expired), (listed.overpaid, received), (listed.overpaid, anomaly), (listed.paid, received),
        (listed.cancelled, cancelled),
    ]  # fmt: skip
    expected: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
        ({}, in_order[::-1]),
        ({"order": "asc"}, in_order),
        ({"after_sequence": 3}, in_order[3:]),
        ({"after_sequence": 3, "type": received}, in_order[3:4]),
        ({"type": received, "order": "asc"}, [in_order[1], in_order[3]]),
        ({"type": [expired, cancelled, "charge.refunded"]}, [in_order[4], in_order[0]]),
        ({"charge_id": listed.overpaid}, [in_order[2], in_order[1]]),
        ({"charge_id": listed.overpaid, "type": anomaly}, [in_order[2]]),
        ({"external_id": "old", "order": "asc"}, in_order[:3]),
        ({"external_id": "old", "type": [expired, received], "order": "asc"}, in_order[:2]),
        ({"charge_id": listed.paid, "external_id": "old"}, []),
        ({"created_from": listed.day(), "created_to": listed.day(), "order": "asc"}, in_order),
        ({"created_to": listed.day(1)}, []),
        ({"created_from": listed.day(-1)}, []),
    ]
    for asked, rows in expected:
        shown = [(row["charge_id"], row["type"]) for row in await listed.client.all("/v1/events", limit=2, **asked)]
        assert shown == rows, asked


async def test_every_filter_of_the_ledger_selects_the_right_entries(listed: ListedMerchant) -> None:
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({}, [listed.paid, listed.overpaid]),
        ({"order": "asc"}, [listed.overpaid, listed.paid]),
        ({"type": "payment"}, [listed.paid, listed.overpaid]),
        ({"type": "refund"}, []),
        ({"created_from": listed.day()}, [listed.paid, listed.overpaid]),
        ({"created_to": listed.day(1)}, []),
        ({"created_from": listed.day(-1)}, []),
        (
            {"type": "payment", "created_from": listed.day(1), "created_to": listed.day()},
            [listed.paid, listed.overpaid],
        ),
    ]
    for asked, charge_ids in expected:
        assert await listed.ids("ledger", **asked) == charge_ids, asked


@pytest.mark.parametrize("name", LISTS)
async def test_a_limit_that_is_no_positive_integer_is_refused_and_one_above_100_is_reduced(
    listed: ListedMerchant, name: str
) -> None:
    wrong = (
        "0", "-1", "abc", "", "1e3", "1.0", "+1", " 1", "0x10", "1_0", "٣", "１０", "²", "0" * 5000, "-" + "9" * 5000,
    )  # fmt: skip
    for limit in wrong:
        answer = await listed.client.get(listed.path(name), limit=limit)
        assert (answer.status, answer.code) == (400, "LIMIT_INVALID"), limit[:20]
    repeated = await listed.client.get(listed.path(name), limit=["1", "1"])
    assert (repeated.status, repeated.code) == (400, "LIMIT_INVALID")
    everything = (await listed.client.get(listed.path(name))).body["data"]
    for limit in ("101", "100", "4294967297", "9" * 5000, "0" * 40 + "9"):
        assert (await listed.client.get(listed.path(name), limit=limit)).body["data"] == everything
    assert (await listed.client.get(listed.path(name), limit="1")).body["data"] == everything[:1]


async def test_a_page_has_25_rows_by_default_and_at_most_100(client_of_150_charges: ApiClient) -> None:
    for asked, rows in (({}, 25), ({"limit": 101}, 100), ({"limit": 10**30}, 100), ({"limit": 99}, 99)):
        assert len((await client_of_150_charges.get("/v1/charges", **asked)).body["data"]) == rows


@pytest.mark.parametrize("name", LISTS)
async def test_unknown_filters_and_invalid_dates_are_refused(listed: ListedMerchant, name: str) -> None:
    for asked in ({"page": 1}, {"Status": "paid"}, {"offset": 3}, {"status[]": "paid"}, {"": "x"}):
        answer = await listed.client.get(listed.path(name), **asked)
        assert (answer.status, answer.code) == (400, "VALIDATION_ERROR"), asked
        assert answer.body["error"]["fields"]
    days = {"charges": "created_from", "payments": "paid_from", "events": "created_from", "ledger": "created_from"}[
        name
    ]
    for day in ("2026-13-01", "2026-02-30", "20260101", "2026-1-1", "2026-W01-1", "", "now", "２０２６-01-01"):
        answer = await listed.client.get(listed.path(name), **{days: day})
        assert (answer.status, answer.code) == (400, "DATE_RANGE_INVALID"), day
    backwards = {days: "2026-02-02", days.replace("from", "to"): "2026-02-01"}
    assert (await listed.client.get(listed.path(name), **backwards)).code == "DATE_RANGE_INVALID"
    for far in ({days: "9999-12-31"}, {days.replace("from", "to"): "0001-01-01"}):
        assert (await listed.client.get(listed.path(name), **far)).body == {"data": [], "next_cursor": None}
    assert (await listed.client.get(listed.path(name), order="up")).code == "VALIDATION_ERROR"
    assert (await listed.client.get(listed.path(name), order=["asc", "asc"])).code == "VALIDATION_ERROR"


async def test_each_list_refuses_filters_of_other_lists_and_unknown_values(listed: ListedMerchant) -> None:
    for name, asked in (
        ("charges", {"type": "payment.received"}),
        ("charges", {"status": "unknown"}),
        ("charges", {"payment_method": "card"}),
        ("charges", {"external_id": ["a", "b"]}),
        ("charges", {"external_id": ""}),
        ("payments", {"status": "paid"}),
        ("payments", {"anomaly": ["duplicate", "duplicate"]}),
        ("payments", {"charge_id": "x"}),
        ("events", {"type": "unknown"}),
        ("events", {"charge_id": "x"}),
        ("ledger", {"type": "gift"}),
        ("ledger", {"charge_id": "x"}),
    ):
        answer = await listed.client.get(listed.path(name), **asked)
        assert (answer.status, answer.code) == (400, "VALIDATION_ERROR"), (name, asked)


async def test_a_query_that_is_not_readable_text_is_refused(listed: ListedMerchant) -> None:
    sent = {"Authorization": f"Bearer {await listed.client.token()}"}
    for query in ("external_id=%FF", "external_id=%00", "external_id=%ED%A0%80", "a=1&" * 200):
        url = URL(f"{listed.client.base_url}/v1/charges?{query}", encoded=True)
        async with listed.client.http.get(url, headers=sent) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, "VALIDATION_ERROR"), query[:30]


def _assert_cursor_invalid(answer: Answer) -> None:
    assert (answer.status, answer.code) == (400, "CURSOR_INVALID"), answer.raw


async def _cursor(listed: ListedMerchant, name: str, **asked: Any) -> str:
    """Returns the cursor of the second page of one row with these filters."""
    page = await listed.client.get(listed.path(name), limit=1, **asked)
    assert page.body["next_cursor"] is not None
    return str(page.body["next_cursor"])


@pytest.mark.parametrize("name", LISTS)
async def test_a_cursor_altered_anywhere_is_refused(listed: ListedMerchant, name: str) -> None:
    path, cursor = listed.path(name), await _cursor(listed, name)
    assert (await listed.client.get(path, cursor=cursor)).status == 200
    raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    altered = [
        urlsafe_b64encode(raw[:at] + bytes([raw[at] ^ 1 << at % 8]) + raw[at + 1 :]).decode().rstrip("=")
        for at in range(len(raw))
    ]
    altered += [cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :] for at in range(len(cursor))]
    altered += [cursor[:length] for length in range(0, len(cursor), 7)]
    altered += [cursor + each for each in ("=", "==", "A", "AAAA", " ", "\n", "%00", ".", "é")]
    altered += [f" {cursor}", cursor.lower(), cursor.swapcase(), cursor + cursor, "A" * 10_240, "!!!!", "e30", "null"]
    assert cursor not in altered
    for answer in await asyncio.gather(*(listed.client.get(path, cursor=each) for each in altered)):
        _assert_cursor_invalid(answer)
    _assert_cursor_invalid(await listed.client.get(path, cursor=[cursor, cursor]))


async def test_a_cursor_belongs_to_its_list_account_mode_and_filters(system: System, listed: ListedMerchant) -> None:
    filtered: dict[str, list[dict[str, Any]]] = {
        "charges": [{"status": "paid"}, {"order": "asc"}, {"created_from": listed.day(3)}, {"external_id": "new"}],
        "payments": [{"method": "pix"}, {"order": "asc"}, {"paid_from": listed.day(3)}],
        "events": [{"type": "payment.received"}, {"order": "asc"}, {"external_id": "old"}, {"after_sequence": 0}],
        "ledger": [{"type": "payment"}, {"order": "asc"}, {"created_from": listed.day(3)}],
    }
    cursors = {name: await _cursor(listed, name) for name in LISTS}
    async with new_merchant(system) as stranger:
        for name, cursor in cursors.items():
            for other in set(LISTS) - {name}:
                _assert_cursor_invalid(await listed.client.get(listed.path(other), cursor=cursor))
            for asked in filtered[name]:
                _assert_cursor_invalid(await listed.client.get(listed.path(name), cursor=cursor, **asked))
                own = await _cursor(listed, name, **asked)
                assert (await listed.client.get(listed.path(name), cursor=own, **asked)).status == 200
                _assert_cursor_invalid(await listed.client.get(listed.path(name), cursor=own))
            _assert_cursor_invalid(await listed.merchant.production.get(listed.path(name), cursor=cursor))
            theirs = listed.path(name).replace(listed.client.account_id, stranger.sandbox.account_id)
            _assert_cursor_invalid(await stranger.sandbox.get(theirs, cursor=cursor))
            # A reader may change the size of the next page.
            assert (await listed.client.get(listed.path(name), cursor=cursor, limit=3)).status == 200


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client_of_150_charges(system: System) -> AsyncIterator[ApiClient]:
    """The sandbox client of a merchant with 150 charges, of which 50 are paid."""
    async with new_merchant(system) as merchant:
        for _ in range(3):
            made = await asyncio.gather(*(merchant.sandbox.created() for _ in range(50)))
        await asyncio.gather(*(merchant.sandbox.pay(charge["charge_id"]) for charge in made))
        yield merchant.sandbox


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("name", ["charges", "events", "ledger", "payments"])
async def test_paging_misses_and_repeats_no_row_while_others_write(
    client_of_150_charges: ApiClient, name: str, order: str
) -> None:
    client = client_of_150_charges
    path = f"/v1/accounts/{client.account_id}/ledger" if name == "ledger" else f"/v1/{name}"
    identity = {"charges": "charge_id", "events": "event_id", "ledger": "entry_id", "payments": "payment_id"}[name]
    walking = True

    async def write() -> None:
        while walking:
            charge = await client.created()
            await client.pay(charge["charge_id"])

    async def walk() -> int:
        """Pages through the list; returns how many rows were added meanwhile."""
        before = {row[identity] for row in await client.all(path, limit=100)}
        walked = [row[identity] for row in await client.all(path, limit=7, order=order)]
        assert len(walked) == len(set(walked))
        assert before <= set(walked)
        return len(walked) - len(before)

    writers = [asyncio.create_task(write()) for _ in range(3)]
    try:
        met = await walk()
        for _ in range(_WALKS_MAX):  # On a busy machine a walk may end before anything is written.
            if met or order == "desc":
                break
            met = await walk()
    finally:
        walking = False
        await asyncio.gather(*writers)
    assert met or order == "desc", "no row was written during any walk"


async def test_paging_shows_rows_of_the_same_instant_once_each(system: System, listed: ListedMerchant) -> None:
    async with new_merchant(system) as merchant, database_of(system) as books:
        charge = await merchant.sandbox.created()
        at = datetime.now(UTC)
        await book_bank_payments(system, books, charge["charge_id"], *[1000] * 20, paid_at=at)
        for order in ("asc", "desc"):
            walked = [row["payment_id"] for row in await merchant.sandbox.all("/v1/payments", limit=3, order=order)]
            assert len(set(walked)) == len(walked) == 20
