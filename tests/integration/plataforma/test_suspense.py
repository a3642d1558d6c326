"""Money that fits no charge, at /plataforma: assigned to a charge or recorded as returned, once, and audited."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from commands.money.refund import NewRefund, TransferDestination, begin_refunds
from commands.money.suspense import NotOpen, SuspendedMoney, assign_suspense, return_suspense, suspend_money
from commands.people.people import delete_person
from commands.people.staff import add_staff
from domain.boleto.terms import Fine, Interest, PaymentTerms
from domain.errors import Refused
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from runtime.ids import new_id
from runtime.passwords import hash_password
from runtime.postgres import Pool, transaction
from runtime.seal import SUSPENDED_PAYER, Seal
from tests.support.boletos import issue
from tests.support.dashboard import Books, Person, a_merchant, owner_in_browser, settings_with, staff_in_browser
from tests.support.pages import serving

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
PATH = "/plataforma/a-identificar"
NEW = "/plataforma/lojas/nova"
WAITS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%suspense%'
"""
REGISTRATION: dict[str, Any] = {
    "name": "Padaria Aurora Ltda", "document": "11.444.777/0001-61", "payout_key": "financeiro@aurora.example",
    "street": "Rua das Flores", "number": "10", "district": "Centro", "city": "Olinda", "state": "PE",
    "zip_code": "53010-000",
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def staff(pool: Pool, address: str) -> AsyncIterator[Person]:
    async with staff_in_browser(pool, address) as person:
        yield person


async def suspend(
    pool: Pool, cents: int = 1234, *, kind: str = "pix_without_txid", received_at: datetime | None = None
) -> UUID:
    seal = Seal(SETTINGS.secret_key)
    payer = msgspec.json.encode({"name": "Fulana de Souza", "document": "12345678909"})
    source, reference = f"E99999994{new_id().hex[:23]}", None
    if kind == "boleto_unknown":
        reference = f"0001234567{new_id().int % 10**10:010}"
        source = f"{reference}/{cents}"
    money = SuspendedMoney(
        suspense_id=new_id(), kind=kind, source=source, reference=reference, amount_cents=cents,
        received_at=received_at or datetime.now(UTC) - timedelta(minutes=1),
        payer_sealed=seal.seal(payer, SUSPENDED_PAYER, source),
    )  # fmt: skip
    async with transaction(pool) as conn:
        assert await suspend_money(conn, [money], bank="001", now=datetime.now(UTC)) == [money.source]
        # The same money reported again changes nothing.
        assert await suspend_money(conn, [money], bank="001", now=datetime.now(UTC)) == []
    return money.suspense_id


async def merchant_books(pool: Pool) -> Books:
    merchant = await a_merchant(pool)
    return Books(pool, UUID(str(merchant.account_id)), Seal(SETTINGS.secret_key))


async def test_open_money_is_listed_with_its_total_and_the_payers_document_masked(pool: Pool, staff: Person) -> None:
    ids = [await suspend(pool, 1001), await suspend(pool, 2002, kind="boleto_unknown")]
    page = await staff.opened(PATH)
    cents = await pool.fetchval("SELECT sum(amount_cents)::bigint FROM suspense WHERE state = 'open'")
    assert f"Em aberto: {brl(cents)}" in page.text.replace("\xa0", " ")
    assert "Fulana de Souza" in page.text
    assert "12345678909" not in page.html
    assert "123.456.789-09" not in page.html
    for suspense_id in ids:
        assert f"{PATH}/{suspense_id}" in page.html
    only = await staff.opened(f"{PATH}?tipo=boleto_unknown")
    assert [f"{PATH}/{suspense_id}" in only.html for suspense_id in ids] == [False, True]
    assert f"{PATH}/{ids[0]}" not in (await staff.opened(f"{PATH}?situacao=assigned")).html
    for wrong in ("situacao=x", "tipo=x"):
        assert (await staff.get(f"{PATH}?{wrong}")).status == 400


async def test_of_concurrent_decisions_about_money_one_takes_effect_and_is_audited(
    pool: Pool, staff: Person, address: str
) -> None:
    suspense_id, books = await suspend(pool), await merchant_books(pool)
    doc = await books.charge(1234)
    one = f"{PATH}/{suspense_id}"
    for wrong in ("", "x", str(new_id())):
        refused = await staff.post(f"{one}/atribuir", on=one, charge_id=wrong)
        assert (refused.status, "Não há cobrança de produção" in refused.text) == (400, True)
    test = await books.charge(1234, test=True)
    assert (await staff.post(f"{one}/atribuir", on=one, charge_id=test.charge_id)).status == 400
    form = await staff.opened(one)
    async with staff_in_browser(pool, address) as colleague:
        answers = await asyncio.gather(
            staff.post(f"{one}/atribuir", form=form, charge_id=doc.charge_id, note="combinado com a loja"),
            staff.post(f"{one}/atribuir", form=form, charge_id=doc.charge_id, note="combinado com a loja"),
            colleague.post(f"{one}/atribuir", on=one, charge_id=doc.charge_id),
            colleague.post(f"{one}/devolver", on=one, reference="D1"),
        )
    payments = await pool.fetch("SELECT amount_cents FROM payment WHERE charge_id = $1", UUID(doc.charge_id))
    state = await pool.fetchval("SELECT state FROM suspense WHERE suspense_id = $1", suspense_id)
    # The first decision took effect; the others were told so.
    assert [row[0] for row in payments] == ([1234] if state == "assigned" else [])
    assert sum(answer.status == 303 for answer in answers) in (1, 2)  # the same form sent twice is answered twice
    assert any("Alguém já tratou este valor" in answer.text for answer in answers)
    done = await pool.fetch("SELECT action FROM audit WHERE subject = $1", str(suspense_id))
    assert [row[0] for row in done] == [f"suspense.{state}"]


async def test_settling_money_waits_for_a_colleagues_open_transaction_and_then_changes_nothing(pool: Pool) -> None:
    suspense_id, books = await suspend(pool), await merchant_books(pool)
    doc = await books.charge(1234)
    now, seal = datetime.now(UTC), Seal(SETTINGS.secret_key)

    async def return_money() -> None:
        async with transaction(pool) as conn:
            await return_suspense(conn, suspense_id, reference="D1", by="bia", note=None, now=now)

    async with transaction(pool) as conn:
        await assign_suspense(
            conn, suspense_id, UUID(doc.charge_id), by="ana", note=None, now=now, seal=seal, fees=NO_FEES
        )
        second = asyncio.create_task(return_money())
        async with asyncio.timeout(30):
            while not second.done() and not await pool.fetchval(WAITS):  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
        assert not second.done()
    with pytest.raises(NotOpen):
        await second
    assert await pool.fetchval("SELECT state FROM suspense WHERE suspense_id = $1", suspense_id) == "assigned"


async def test_assigned_money_pays_the_charge_with_its_event_and_ledger_entry(pool: Pool, staff: Person) -> None:
    # The money was received before the charge's expiry, which has passed since.
    now, books = datetime.now(UTC), await merchant_books(pool)
    suspense_id = await suspend(pool, received_at=now - timedelta(minutes=90))
    doc = await books.charge(1234, at=now - timedelta(hours=2), lifetime=timedelta(hours=1))
    one = f"{PATH}/{suspense_id}"
    done = await staff.post(f"{one}/atribuir", on=one, charge_id=doc.charge_id.upper(), note="combinado")
    assert done.status == 303
    page = (await staff.opened(done.where)).text
    for said in ("Atribuído", doc.charge_id, "combinado", staff.email, "Valor atribuído."):
        assert said in page
    charge = UUID(doc.charge_id)
    assert await pool.fetchval("SELECT status FROM charge WHERE charge_id = $1", charge) == "paid"
    events = await pool.fetch("SELECT type FROM read_event WHERE charge_id = $1", charge)
    assert [row["type"] for row in events] == ["payment.received"]
    assert await pool.fetchval("SELECT amount_cents FROM read_ledger WHERE charge_id = $1", charge) == 1234
    order = await pool.fetchval("SELECT kind FROM bank_order WHERE charge_id = $1", charge)
    assert order == "cob_remove"
    log = await staff.audit_log()
    assert "Atribuiu um valor a identificar" in log
    assert re.search(rf"cobrança: {doc.charge_id}", log)
    assert "combinado" in log


async def test_staff_who_approved_an_account_or_freed_its_refunds_cannot_assign_money_to_it(
    pool: Pool, staff: Person, address: str
) -> None:
    made = await staff.post(NEW, on=NEW, email=f"{new_id().hex}@example.com", **REGISTRATION)
    registered = UUID(made.where.split("?")[0].rsplit("/", 1)[1])
    freed = UUID(str((await a_merchant(pool)).account_id))

    async def act(person: Person, account_id: UUID, path: str, **fields: Any) -> None:
        page = f"/plataforma/lojas/{account_id}"
        assert (await person.post(f"{page}/{path}", on=page, **fields)).status == 303, path

    await act(staff, registered, "cadastro", kyc="approved")
    await act(staff, freed, "devolucoes/liberar", reason="seguradora")
    # Removed and added again under the same e-mail, the member of staff counts as the same person.
    async with transaction(pool) as conn:
        await delete_person(conn, email=staff.email)
        await add_staff(conn, staff.email, hash_password(staff.password), role="admin", now=datetime.now(UTC))
    assert (await staff.sign_in()).status == 303
    async with staff_in_browser(pool, address) as second:
        for account_id in (registered, freed):
            charge_id = (await Books(pool, account_id, Seal(SETTINGS.secret_key)).charge(1234)).charge_id
            one = f"{PATH}/{await suspend(pool)}"
            refused = await staff.post(f"{one}/atribuir", on=one, charge_id=charge_id, note="combinado")
            assert (refused.status, "outra pessoa da equipe atribua este valor" in refused.text) == (400, True)
            assert f'value="{charge_id}"' in refused.html
            await act(second, account_id, "observacoes", note="A loja ligou.")
            assert (await second.post(f"{one}/atribuir", on=one, charge_id=charge_id)).status == 303
            done = await pool.fetch("SELECT email FROM audit WHERE subject = $1", one.rsplit("/", 1)[1])
            assert [row[0] for row in done] == [second.email]


async def test_money_of_a_boleto_assigned_to_a_pix_charge_is_refunded_to_a_key_of_the_payer_only(
    pool: Pool, address: str
) -> None:
    merchant, payer = await a_merchant(pool), "52998224725"
    books = Books(pool, UUID(str(merchant.account_id)), Seal(SETTINGS.secret_key))
    doc = await books.charge(1234, payer={"name": "Fulana", "document": payer})
    charge_id, suspense_id = UUID(doc.charge_id), await suspend(pool, kind="boleto_unknown")
    async with transaction(pool) as conn:
        await assign_suspense(
            conn, suspense_id, charge_id, by="ana", note=None, now=datetime.now(UTC), seal=books.seal, fees=NO_FEES
        )

    async def request_refund(cents: int, document: str | None) -> str | None:
        refund_id = new_id()
        to = None if document is None else TransferDestination(pix_key="a@b.cc", document=document)
        asked = NewRefund(
            owner=Owner(books.account_id, Mode.PRODUCTION), key=str(refund_id), fingerprint=bytes(32),
            refund_id=refund_id, charge_id=charge_id, amount_cents=cents, payment_id=None, reason=None,
            description=None, external_id=None, destination=None if to is None else to.kept(refund_id, books.seal),
            scenario=None, actor="test", request_id="test",
        )  # fmt: skip
        async with transaction(pool) as conn:
            (made,) = await begin_refunds(conn, [asked], now=datetime.now(UTC), transfers_cents_max=500_000)
        assert made is not None
        return made.code.name if isinstance(made, Refused) else made.status

    assert await request_refund(34, None) == "REFUND_DESTINATION_REQUIRED"
    assert await request_refund(34, "11144477735") == "VALIDATION_ERROR"
    assert await request_refund(34, payer) == "pending"
    payment_id = await pool.fetchval("SELECT payment_id FROM payment WHERE charge_id = $1", charge_id)
    async with owner_in_browser(address, merchant) as owner:
        form = f"/painel/cobrancas/{charge_id}/devolver"
        asked = await owner.post(form, on=form, payment_id=str(payment_id), pix_key="a@b.cc", sure="yes")
    assert (asked.status, asked.where) == (303, f"/painel/cobrancas/{charge_id}?feito=devolucao"), asked.text
    orders = await pool.fetch("SELECT kind FROM bank_order WHERE charge_id = $1 AND kind LIKE 'refund%'", charge_id)
    assert [row[0] for row in orders] == ["refund_transfer", "refund_transfer"]
    assert await pool.fetchval("SELECT refunding_cents FROM payment WHERE payment_id = $1", payment_id) == 1234


@pytest.mark.parametrize(
    ("cents", "status", "anomaly", "parts"),
    [(126007, "paid", None, {"fine_cents": 2469, "interest_cents": 82}),
     (123456, "pending", "amount_mismatch", {}),
     (126008, "paid", "amount_mismatch", {})],
    ids=["what was owed", "the amount alone", "a cent more"],
)  # fmt: skip
async def test_money_assigned_to_an_overdue_boleto_is_judged_against_its_fine_and_interest(
    pool: Pool, cents: int, status: str, anomaly: str | None, parts: dict[str, int]
) -> None:
    """Two days late: 1.234,56 + 24,69 + 0,82."""
    books, issued, paid = (
        await merchant_books(pool),
        datetime(2026, 11, 24, 15, tzinfo=UTC),
        datetime(2026, 12, 12, 15, tzinfo=UTC),
    )
    terms = PaymentTerms(fine=Fine(percent_bps=200), interest=Interest(month_bps=100), payable_days=30)
    async with transaction(pool) as conn:
        doc = await issue(
            conn, books.seal, books.account_id, test=False, due=date(2026, 12, 10), now=issued, terms=terms
        )
        assert doc.boleto is not None
        await conn.execute(
            "INSERT INTO boleto (account_id, charge_id, bank, number, due_on, terms, registered_at)"
            " SELECT account_id, charge_id, bank, $2, $3, $4, created_at FROM charge WHERE charge_id = $1",
            UUID(doc.charge_id), doc.boleto.nosso_numero, date(2026, 12, 10), msgspec.json.encode(terms),
        )  # fmt: skip
    suspense_id = await suspend(pool, cents, received_at=paid)
    async with transaction(pool) as conn:
        await assign_suspense(
            conn, suspense_id, UUID(doc.charge_id), by="ana", note=None, now=paid + timedelta(hours=1), seal=books.seal,
            fees=NO_FEES,
        )  # fmt: skip
        after = await conn.fetchval("SELECT status FROM charge WHERE charge_id = $1", UUID(doc.charge_id))
        orders = await conn.fetch("SELECT kind FROM bank_order WHERE charge_id = $1", UUID(doc.charge_id))
        payment = await conn.fetchval(
            "SELECT payload -> 'payment' FROM journal WHERE charge_id = $1 AND payload ? 'payment'", UUID(doc.charge_id)
        )
    told = msgspec.json.decode(payment)
    assert (after, told["anomaly"], told["late"]) == (status, anomaly, True)
    # What less was paid for can still be paid.
    assert [row["kind"] for row in orders] == (["boleto_reconcile"] if status == "paid" else [])
    assert {name: value for name, value in told.items() if name in ("fine_cents", "interest_cents")} == parts


async def test_a_return_made_at_the_bank_is_recorded_with_its_reference(pool: Pool, staff: Person) -> None:
    suspense_id = await suspend(pool)
    one = f"{PATH}/{suspense_id}"
    wrongs: list[dict[str, Any]] = [{"reference": ""}, {"reference": "x" * 101}, {"reference": "D1", "note": "x" * 501}]
    for wrong in wrongs:
        assert (await staff.post(f"{one}/devolver", on=one, **wrong)).status == 400, wrong
    done = await staff.post(f"{one}/devolver", on=one, reference="D99999994202611221200abcdefghijk")
    assert done.status == 303
    page = (await staff.opened(done.where)).text
    assert "Devolvido no banco" in page
    assert "D99999994202611221200abcdefghijk" in page
    again = await staff.post(f"{one}/devolver", on=PATH, reference="D2")
    assert (again.status, "Alguém já tratou este valor" in again.text) == (400, True)
    assert "Registrou uma devolução feita no banco" in await staff.audit_log()
    assert (await staff.get(f"{PATH}/{new_id()}")).status == 404


async def test_money_whose_payer_cannot_be_unsealed_is_listed_and_assigned_without_a_name(
    pool: Pool, staff: Person
) -> None:
    suspense_id, books = await suspend(pool), await merchant_books(pool)
    doc = await books.charge(1234)
    foreign = Seal(bytes(range(32))).seal(b"{}", SUSPENDED_PAYER, "")  # sealed with a key that is no longer ours
    await pool.execute("UPDATE suspense SET payer_sealed = $1 WHERE suspense_id = $2", foreign, suspense_id)
    one = f"{PATH}/{suspense_id}"
    assert one in (await staff.opened(PATH)).html
    assert (await staff.post(f"{one}/atribuir", on=one, charge_id=doc.charge_id)).status == 303
    assert await pool.fetchval("SELECT state FROM suspense WHERE suspense_id = $1", suspense_id) == "assigned"


async def test_an_item_of_the_bank_that_could_not_be_read_is_shown_by_its_identifier(pool: Pool, staff: Person) -> None:
    about = f"E99999994{new_id().hex[:23]}"
    await pool.execute(
        "INSERT INTO bank_unreadable (bank, method, about, item_sealed, found_at) VALUES ('001', 'pix', $1, '', now())",
        about,
    )
    try:
        assert about in (await staff.opened(PATH)).text
    finally:
        await pool.execute("DELETE FROM bank_unreadable WHERE about = $1", about)


def brl(cents: int) -> str:
    whole = f"{cents // 100:,}".replace(",", ".")
    return f"R$ {whole},{cents % 100:02}"
