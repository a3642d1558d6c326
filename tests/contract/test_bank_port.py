"""The promises of banks/protocol.py, kept by each bank: the adapter over real HTTP, and the simulated bank as workers
use it in sandbox mode."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs

from banks.banco_do_brasil.agreement import boleto_codes
from banks.boletos import NOT_FOUND, PAID, WRITTEN_OFF, BoletoState, PaidBoleto
from banks.protocol import Bank, Cob, CobState, Cobv, Done, NotFound, Rejected
from banks.received import ReceivedPix
from banks.simulated.bank import SANDBOX, PayerPix, SimulatedBank
from banks.simulated.boletos import BoletoRules
from banks.transfers import PIX_UNKNOWN, Return, Sent, SentTransfer, Transfer
from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms, expires_at
from domain.instants import to_millisecond
from runtime.ids import new_id
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.bank_lists import boletos_paid, every_page, received
from tests.support.banking import AGREEMENT, SECRET_KEY, utc_now
from tests.support.boleto_bank import new_boleto, running_boleto_bank, today

ADAPTER, SIMULATED = "the adapter of Banco do Brasil", "the simulated bank"


class Subject:
    """A bank as workers use it, and the simulated bank's books, in which payers pay."""

    def __init__(self, bank: Bank, books: SimulatedBank) -> None:
        self.bank = bank
        self.books = books

    async def cob(self, **fields: Any) -> Cob:
        made = await self.bank.pix.create_locations(1)
        assert isinstance(made, Done)
        given: dict[str, Any] = {
            "txid": new_id().hex, "amount_cents": 12345, "created_at": utc_now(), "expires_in_s": 3600,
            "location_id": made.value[0].location_id, "pix_key": str(new_id()),
        }  # fmt: skip
        return Cob(**(given | fields))

    async def cobv(self, **fields: Any) -> Cobv:
        made = await self.bank.cobvs.create_cobv_location()
        assert isinstance(made, Done)
        given: dict[str, Any] = {
            "txid": new_id().hex, "amount_cents": 12345, "due_on": today() + timedelta(days=10), "terms": TERMS,
            "location_id": made.value.location_id, "pix_key": str(new_id()), "payer_name": "João da Silva",
            "payer_document": "11144477735",
        }  # fmt: skip
        return Cobv(**(given | fields))

    async def paid(self, cob: Cob) -> str:
        """Pay the cob. Returns the payment's endToEndId."""
        end_to_end_id = f"E00000000{new_id().hex[:23]}"
        paid = PayerPix(end_to_end_id=end_to_end_id, txid=cob.txid, amount_cents=cob.amount_cents, paid_at=utc_now())
        await self.books.receive([paid], tell=False)
        return end_to_end_id


@pytest_asyncio.fixture(params=[ADAPTER, SIMULATED], scope="module", loop_scope="session")
async def subject(request: pytest.FixtureRequest, pool: Pool) -> AsyncIterator[Subject]:
    rules = BoletoRules(apply_30_minutes=False, detail_cache_s=0, settle_after_s=0)
    if request.param == SIMULATED:
        seal = Seal(bytes.fromhex(SECRET_KEY))
        books = SimulatedBank(pool, seal, world=SANDBOX, url="http://app.example:8000", now=utc_now)
        await books.boletos.set_rules(rules)
        yield Subject(books, books)
        return
    async with running_boleto_bank(pool) as running:
        await running.books.set_rules(rules)
        yield Subject(running.adapter(), running.bank)


# PIX


async def test_putting_a_cob_twice_registers_it_once(subject: Subject) -> None:
    cob = await subject.cob()
    for _ in range(2):
        assert await subject.bank.pix.put_cob(cob) == Done(None)
        assert await subject.bank.pix.get_cob(cob.txid) == CobState(status="ATIVA", received=[])


async def test_an_unregistered_cob_or_boleto_is_not_found(subject: Subject) -> None:
    txid = new_id().hex
    assert await subject.bank.pix.get_cob(txid) == NotFound()
    assert await subject.bank.pix.remove_cob(txid) == NotFound()
    assert await subject.bank.pix.revise_cob(txid, utc_now() + timedelta(hours=1)) == NotFound()
    assert await subject.bank.boletos.find_boleto(new_boleto().number) == NotFound()


async def test_removing_a_cob_again_succeeds_and_it_cannot_be_put_or_revised_again(subject: Subject) -> None:
    cob = await subject.cob()
    assert isinstance(await subject.bank.pix.put_cob(cob), Done)
    assert [await subject.bank.pix.remove_cob(cob.txid) for _ in range(2)] == [Done(None), Done(None)]
    assert isinstance(await subject.bank.pix.put_cob(cob), Rejected)
    assert isinstance(await subject.bank.pix.revise_cob(cob.txid, utc_now() + timedelta(hours=2)), Rejected)


async def test_a_paid_cob_shows_its_payment_and_cannot_be_removed(subject: Subject) -> None:
    cob = await subject.cob()
    assert isinstance(await subject.bank.pix.put_cob(cob), Done)
    before = utc_now() - timedelta(minutes=1)
    end_to_end_id = await subject.paid(cob)
    state = await subject.bank.pix.get_cob(cob.txid)
    assert isinstance(state, CobState)
    assert (state.status, [pix.end_to_end_id for pix in state.received]) == ("CONCLUIDA", [end_to_end_id])
    assert isinstance(await subject.bank.pix.remove_cob(cob.txid), Rejected)
    listed = await received(subject.bank.pix, before, utc_now() + timedelta(minutes=1))
    assert isinstance(listed, Done)
    assert state.received[0] in listed.value


async def test_a_revised_cob_expires_at_the_new_instant(subject: Subject) -> None:
    cob = await subject.cob()
    assert isinstance(await subject.bank.pix.put_cob(cob), Done)
    until = utc_now() + timedelta(hours=5)
    assert [await subject.bank.pix.revise_cob(cob.txid, until) for _ in range(2)] == [Done(None), Done(None)]
    booked = await subject.books.booked(cob.txid)
    assert booked is not None
    assert abs((booked.created_at + timedelta(seconds=booked.expires_in_s) - until).total_seconds()) <= 2


# PIX charges with a due date


TERMS = PaymentTerms(
    fine=Fine(percent_bps=200), interest=Interest(day_cents=3), payable_days=5,
    discounts=(Discount(until=today() + timedelta(days=2), amount_cents=500),),
)  # fmt: skip


async def test_putting_a_cobv_twice_registers_it_once_with_its_terms(subject: Subject) -> None:
    cobv = await subject.cobv()
    assert [await subject.bank.cobvs.put_cobv(cobv) for _ in range(2)] == [Done(None), Done(None)]
    booked = await subject.books.booked(cobv.txid)
    assert booked is not None
    assert (booked.agreed, booked.due_on, booked.revisao) == (TERMS, cobv.due_on, 0)
    assert (booked.amount_cents, booked.due(utc_now()).total_cents) == (12345, 11845)
    assert abs((booked.ends_at - expires_at(TERMS, cobv.due_on)).total_seconds()) <= 1
    taken = Cobv(**structs.asdict(cobv) | {"txid": new_id().hex})
    assert isinstance(await subject.bank.cobvs.put_cobv(taken), Rejected)


async def test_terms_in_amounts_and_in_percents_are_registered_unchanged(subject: Subject) -> None:
    days = [today() + timedelta(days=each) for each in (1, 2, 3)]
    for terms in (
        PaymentTerms(fine=Fine(amount_cents=200), interest=Interest(month_bps=100), payable_days=30),
        PaymentTerms(discounts=tuple(Discount(until=day, percent_bps=300 - 100 * at) for at, day in enumerate(days))),
        PaymentTerms(payable_days=2),
    ):
        cobv = await subject.cobv(terms=terms)
        assert await subject.bank.cobvs.put_cobv(cobv) == Done(None)
        booked = await subject.books.booked(cobv.txid)
        assert booked is not None
        assert booked.agreed == terms


async def test_an_unregistered_cobv_is_not_found(subject: Subject) -> None:
    txid = new_id().hex
    assert await subject.bank.cobvs.get_cobv(txid) == NotFound()
    assert await subject.bank.cobvs.remove_cobv(txid) == NotFound()
    assert await subject.bank.cobvs.revise_cobv(txid, today(), TERMS) == NotFound()


async def test_removing_a_cobv_again_succeeds_and_it_cannot_be_put_or_revised_again(subject: Subject) -> None:
    cobv = await subject.cobv()
    assert await subject.bank.cobvs.put_cobv(cobv) == Done(None)
    assert [await subject.bank.cobvs.remove_cobv(cobv.txid) for _ in range(2)] == [Done(None), Done(None)]
    assert isinstance(await subject.bank.cobvs.put_cobv(cobv), Rejected)
    assert isinstance(await subject.bank.cobvs.revise_cobv(cobv.txid, cobv.due_on, TERMS), Rejected)


async def test_a_new_due_date_of_a_cobv_keeps_its_terms(subject: Subject) -> None:
    cobv = await subject.cobv()
    assert await subject.bank.cobvs.put_cobv(cobv) == Done(None)
    later = cobv.due_on + timedelta(days=40)
    assert [await subject.bank.cobvs.revise_cobv(cobv.txid, later, TERMS) for _ in range(2)] == [Done(None), Done(None)]
    booked = await subject.books.booked(cobv.txid)
    assert booked is not None
    assert (booked.due_on, booked.agreed) == (later, TERMS)
    assert abs((booked.ends_at - expires_at(TERMS, later)).total_seconds()) <= 1


async def test_a_paid_cobv_shows_fine_and_interest_and_cannot_be_removed(subject: Subject) -> None:
    cobv = await subject.cobv()
    assert await subject.bank.cobvs.put_cobv(cobv) == Done(None)
    paid = PayerPix(
        end_to_end_id=f"E00000000{new_id().hex[:23]}", txid=cobv.txid, amount_cents=12345 + 247 + 6, paid_at=utc_now(),
        fine_cents=247, interest_cents=6,
    )  # fmt: skip
    await subject.books.receive([paid], tell=False)
    state = await subject.bank.cobvs.get_cobv(cobv.txid)
    assert isinstance(state, CobState)
    (pix,) = state.received
    assert (state.status, pix.amount_cents) == ("CONCLUIDA", 12598)
    assert (pix.fine_cents, pix.interest_cents, pix.discount_cents) == (247, 6, 0)
    assert isinstance(await subject.bank.cobvs.remove_cobv(cobv.txid), Rejected)


async def test_created_locations_are_unique_and_at_most_77_characters_without_scheme(subject: Subject) -> None:
    made = await subject.bank.pix.create_locations(3)
    assert isinstance(made, Done)
    assert 1 <= len({location.location_id for location in made.value}) == len(made.value) <= 3
    assert all(len(location.location) <= 77 and "://" not in location.location for location in made.value)


async def test_a_callback_can_be_registered_again_with_another_address(subject: Subject) -> None:
    key = str(new_id())
    for path in ("old", "new"):
        assert await subject.bank.pix.register_callback(key, f"https://merchant.example/{path}") == Done(None)


async def test_every_received_pix_is_listed_once_over_the_pages(subject: Subject) -> None:
    before = utc_now() - timedelta(minutes=5)
    cob = await subject.cob()
    assert isinstance(await subject.bank.pix.put_cob(cob), Done)
    paid = [await subject.paid(cob) for _ in range(3)]
    by_hand, odd = [f"E00000000{new_id().hex[:23]}" for _ in range(2)]
    many = [f"E00000000{new_id().hex[:23]}" for _ in range(230)]
    strays = [
        *(PayerPix(end_to_end_id=each, txid="DEOUTROPROGRAMA0000000000001", amount_cents=1, paid_at=utc_now())
          for each in many),
        PayerPix(end_to_end_id=by_hand, txid=None, amount_cents=2, paid_at=utc_now()),
        PayerPix(end_to_end_id=odd, txid=None, amount_cents=3, paid_at=utc_now(), garbled=True),
    ]  # fmt: skip
    await subject.books.receive(strays, tell=False)
    until, after, pages = utc_now() + timedelta(minutes=5), None, 0
    seen: list[ReceivedPix] = []
    unreadable: list[str] = []
    while True:
        answer = await subject.bank.pix.received_page(before, until, after)
        assert isinstance(answer, Done)
        seen += answer.value.items
        unreadable += [each.about for each in answer.value.unreadable]
        pages += 1
        after = answer.value.following
        if after is None:
            break
    assert answer.value.pages == pages
    assert pages >= 3
    ids = [pix.end_to_end_id for pix in seen]
    assert len(ids) == len(set(ids))
    assert {*paid, *many, by_hand} <= set(ids)
    # An unreadable PIX does not hide the others, and is reported by its endToEndId.
    assert odd in unreadable
    assert odd not in ids
    assert {pix.txid for pix in seen if pix.end_to_end_id == by_hand} == {None}
    assert {pix.txid for pix in seen if pix.end_to_end_id in many} == {"DEOUTROPROGRAMA0000000000001"}


async def test_returns_begun_by_us_or_by_the_bank_are_listed_with_their_pix(subject: Subject) -> None:
    cob = await subject.cob()
    assert isinstance(await subject.bank.pix.put_cob(cob), Done)
    kept, taken = await subject.paid(cob), await subject.paid(cob)
    ours = Return(id=new_id().hex, end_to_end_id=taken, amount_cents=345)
    assert isinstance(await subject.bank.transfers.return_pix(ours), Done)
    assert not isinstance(await subject.books.transfers.take_back(taken, 1000), Rejected)
    interval = utc_now() - timedelta(minutes=5), utc_now() + timedelta(minutes=5)
    # Over all pages: what other tests returned in these minutes is listed first.
    items = await every_page(lambda after: subject.bank.pix.received_page(*interval, after, returned=True))
    assert isinstance(items, list)
    listed = {pix.end_to_end_id: pix for pix in items}
    assert kept not in listed
    assert {(each.id == ours.id, each.amount_cents) for each in listed[taken].returned} == {(True, 345), (False, 1000)}
    assert all(each.return_id for each in listed[taken].returned)
    state = await subject.bank.pix.get_cob(cob.txid)
    assert isinstance(state, CobState)
    assert listed[taken] in state.received


# Returns and transfers


async def test_a_return_sent_twice_under_one_id_is_made_once(subject: Subject) -> None:
    cob = await subject.cob()
    assert isinstance(await subject.bank.pix.put_cob(cob), Done)
    end_to_end_id = await subject.paid(cob)
    asked = Return(id=new_id().hex, end_to_end_id=end_to_end_id, amount_cents=345)
    assert await subject.bank.transfers.find_return(end_to_end_id, asked.id) == NotFound()
    first, again = [await subject.bank.transfers.return_pix(asked) for _ in range(2)]
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert first.value.amount_cents == again.value.amount_cents == 345
    found = await subject.bank.transfers.find_return(end_to_end_id, asked.id)
    assert isinstance(found, Sent)
    assert found.reference == first.value.reference
    too_much = Return(id=new_id().hex, end_to_end_id=end_to_end_id, amount_cents=12_001)
    assert isinstance(await subject.bank.transfers.return_pix(too_much), Rejected)


async def test_a_return_of_an_unknown_pix_is_rejected_as_pix_unknown(subject: Subject) -> None:
    asked = Return(id=new_id().hex, end_to_end_id=f"E00000000{new_id().hex[:23]}", amount_cents=1)
    answer = await subject.bank.transfers.return_pix(asked)
    assert isinstance(answer, Rejected)
    assert answer.code == PIX_UNKNOWN


async def test_a_transfer_sent_twice_under_one_id_is_made_once(subject: Subject) -> None:
    asked = Transfer(id=new_id().hex, pix_key="11144477735", document="11144477735", amount_cents=500)
    assert await subject.bank.transfers.find_transfer(asked.id) == NotFound()
    first, again = [await subject.bank.transfers.send_pix(asked) for _ in range(2)]
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert first.value.amount_cents == 500
    found = await subject.bank.transfers.find_transfer(asked.id)
    assert isinstance(found, Sent)
    assert found.reference == first.value.reference == again.value.reference


async def test_sent_transfers_are_listed_over_the_pages_of_their_interval(subject: Subject) -> None:
    since = to_millisecond(utc_now())  # a bank's instants have milliseconds
    asked = [
        Transfer(id=new_id().hex, pix_key="11144477735", document="11144477735", amount_cents=500 + number)
        for number in range(103)
    ]
    for each in asked:
        assert isinstance(await subject.bank.transfers.send_pix(each), Done)
    seen: dict[str, SentTransfer] = {}
    after, pages = None, 0
    while pages == 0 or after is not None:
        page = await subject.bank.transfers.sent_page(
            since - timedelta(seconds=1), utc_now() + timedelta(seconds=1), after
        )
        assert isinstance(page, Done)
        seen |= {item.id: item for item in page.value.items}
        after, pages = page.value.following, pages + 1
    assert pages == 2
    mine = {each.id: each.amount_cents for each in asked}
    assert {id: seen[id].amount_cents for id in mine} == mine
    assert {seen[id].pix_key for id in mine} == {"11144477735"}
    assert all(since <= seen[id].asked_at <= utc_now() for id in mine)
    early = await subject.bank.transfers.sent_page(since - timedelta(days=3), since - timedelta(days=2))
    assert isinstance(early, Done)
    assert early.value.items == []


# Boletos


async def test_registering_a_boleto_twice_registers_it_once_with_the_same_line(subject: Subject) -> None:
    boleto = new_boleto(hybrid=True)
    first, again = [await subject.bank.boletos.register_boleto(boleto) for _ in range(2)]
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert first.value.qr_code is not None
    state = await subject.bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.amount_cents, state.due_on) == ("open", 12345, boleto.due_on)
    assert (state.barcode, state.line) == boleto_codes(boleto.number, due_on=boleto.due_on, amount_cents=12345)


async def test_another_boleto_under_a_used_number_is_rejected(subject: Subject) -> None:
    boleto = new_boleto()
    assert isinstance(await subject.bank.boletos.register_boleto(boleto), Done)
    assert isinstance(
        await subject.bank.boletos.register_boleto(new_boleto(number=boleto.number, amount_cents=1)), Rejected
    )


async def test_an_open_boleto_can_be_re_dated_and_written_off(subject: Subject) -> None:
    boleto = new_boleto()
    assert isinstance(await subject.bank.boletos.register_boleto(boleto), Done)
    later = today() + timedelta(days=40)
    assert [await subject.bank.boletos.redate_boleto(boleto.number, later) for _ in range(2)] == [
        Done(None),
        Done(None),
    ]
    state = await subject.bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert state.due_on == later
    assert isinstance(await subject.bank.boletos.write_off_boleto(boleto.number), Done)
    state = await subject.bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert state.status == "written_off"
    redated = await subject.bank.boletos.redate_boleto(boleto.number, later + timedelta(days=1))
    assert isinstance(redated, Rejected)
    assert redated.code == WRITTEN_OFF


async def test_a_paid_boleto_is_listed_and_cannot_be_changed(subject: Subject) -> None:
    boleto = new_boleto()
    assert isinstance(await subject.bank.boletos.register_boleto(boleto), Done)
    await subject.books.boletos.pay(boleto.number, rail="boleto", tell=False)
    state = await subject.bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.paid_cents) == ("paid", 12345)
    listed = await boletos_paid(subject.bank.boletos, today() - timedelta(days=1), today())
    assert isinstance(listed, Done)
    mine = [each for each in listed.value if each.number == boleto.number]
    assert [(type(each), each.paid_cents) for each in mine] == [(PaidBoleto, 12345)]
    for answer in (
        await subject.bank.boletos.write_off_boleto(boleto.number),
        await subject.bank.boletos.redate_boleto(boleto.number, today() + timedelta(days=40)),
    ):
        assert isinstance(answer, Rejected)
        assert answer.code == PAID


async def test_an_unreadable_paid_boleto_does_not_hide_the_others(subject: Subject, pool: Pool) -> None:
    whole, odd = new_boleto(), new_boleto()
    for each in (whole, odd):
        assert isinstance(await subject.bank.boletos.register_boleto(each), Done)
        await subject.books.boletos.pay(each.number, rail="boleto", tell=False)
    await pool.execute("UPDATE simulated_boleto SET garbled = true WHERE number = $1", odd.number)
    after, seen, unreadable = None, set(), set()
    while True:
        answer = await subject.bank.boletos.paid_page(today() - timedelta(days=1), today(), after)
        assert isinstance(answer, Done)
        seen |= {each.number for each in answer.value.items}
        unreadable |= {each.about for each in answer.value.unreadable}
        after = answer.value.following
        if after is None:
            break
    await pool.execute("UPDATE simulated_boleto SET garbled = false WHERE number = $1", odd.number)
    assert (whole.number in seen, odd.number in seen) == (True, False)
    assert unreadable == {odd.number}


async def test_an_unregistered_boleto_cannot_be_changed(subject: Subject) -> None:
    number = new_boleto().number
    for answer in (
        await subject.bank.boletos.write_off_boleto(number),
        await subject.bank.boletos.redate_boleto(number, today() + timedelta(days=1)),
    ):
        assert isinstance(answer, Rejected)
        assert answer.code == NOT_FOUND


def test_the_boletos_of_these_tests_belong_to_the_banks_agreement() -> None:
    assert new_boleto().number.startswith(f"000{AGREEMENT.convenio}")
