"""Splitting the amount that the bank reports as paid on a boleto into payments: all of the money is booked once, and no
payment has another PIX's endToEndId."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from banks.boletos import BoletoState
from banks.received import ReceivedPix
from commands.charges.confirm_boletos import Part, split

BOLETO_CENTS = 2_000
NOW = datetime(2026, 11, 21, 15, tzinfo=UTC)

# What payers send, in order: by PIX or not, cents, and whether we look up the boleto right after it.
moneys = st.lists(
    st.tuples(st.booleans(), st.sampled_from((BOLETO_CENTS, 1, 1_999, 2_001, 4_000)), st.booleans()),
    min_size=1,
    max_size=8,
)


def _state(sent: list[tuple[bool, int, bool]], pix: tuple[ReceivedPix, ...]) -> BoletoState:
    return BoletoState(
        number="1" * 20,
        seu_numero="1",
        status="paid",
        amount_cents=BOLETO_CENTS,
        due_on=date(2026, 12, 1),
        line="",
        barcode="",
        registered_on=date(2026, 11, 1),
        paid_cents=sum(cents for _, cents, _ in sent),
        paid_by_pix=sent[-1][0],
        pix=pix,
    )


def _pix(index: int, cents: int) -> ReceivedPix:
    return ReceivedPix(end_to_end_id=f"E{index}", txid="t", amount_cents=cents, paid_at=NOW + timedelta(seconds=index))


def _looks_at(
    sent: list[tuple[bool, int, bool]], lists: Callable[[int], int | None], *, announced: int = 1
) -> list[list[Part]]:
    """The payments booked at each look-up. `lists`: how many of the sent sums the bank's list of PIX contains at a
    look-up, None when the list does not answer."""
    looks: list[list[Part]] = []
    booked_cents = unnamed_cents = 0
    named: set[str] = set()
    for count, (_, _, looked_at) in enumerate(sent, 1):
        if not looked_at and count < len(sent):
            continue
        listed = enumerate(sent[: lists(count) or 0])
        state = _state(sent[:count], tuple(_pix(index, cents) for index, (by_pix, cents, _) in listed if by_pix))
        parts = split(
            state,
            amount_cents=BOLETO_CENTS,
            booked_cents=booked_cents,
            named=named,
            unnamed_cents=unnamed_cents,
            announced=announced,
            limit=10,
        )
        booked_cents += sum(part.amount_cents for part in parts)
        assert booked_cents == state.paid_cents
        assert all(part.amount_cents > 0 for part in parts)
        for part in parts:
            if part.pix is not None:
                assert part.pix.end_to_end_id not in named, "one PIX was booked as two payments"
                assert part.pix.amount_cents == part.amount_cents
                named.add(part.pix.end_to_end_id)
            elif part.by_pix:
                unnamed_cents += part.amount_cents
        looks.append(parts)
    return looks


@given(moneys)
def test_when_the_banks_list_is_complete_each_pix_becomes_a_payment_of_its_own(
    sent: list[tuple[bool, int, bool]],
) -> None:
    looks = _looks_at(sent, lambda count: count)
    named = [part.pix.end_to_end_id for parts in looks for part in parts if part.pix is not None]
    assert named == [f"E{index}" for index, each in enumerate(sent) if each[0]]
    by_pix = sum(part.amount_cents for parts in looks for part in parts if part.pix is not None)
    assert by_pix == sum(cents for pix, cents, _ in sent if pix)
    assert not any(part.by_pix for parts in looks for part in parts)


@given(moneys, st.lists(st.none() | st.integers(0, 8), min_size=8, max_size=8))
def test_a_late_early_or_missing_list_of_pix_neither_loses_nor_doubles_money(
    sent: list[tuple[bool, int, bool]], known: list[int | None]
) -> None:
    _looks_at(sent, lambda count: known[count - 1])


@given(moneys)
def test_a_pix_booked_without_endtoendid_is_not_booked_again_under_the_id_of_another(
    sent: list[tuple[bool, int, bool]],
) -> None:
    """The list does not answer at the first look-up, and is complete from then on."""
    sent = [(True, cents, looked_at) for _, cents, looked_at in sent]
    first = next(count for count, each in enumerate(sent, 1) if each[2] or count == len(sent))
    looks = _looks_at(sent, lambda count: None if count == first else count)
    named = [part.pix.end_to_end_id for parts in looks for part in parts if part.pix is not None]
    assert named == [f"E{index}" for index in range(first, len(sent))]


def test_a_pix_received_after_the_total_was_read_is_booked_at_the_next_look_up() -> None:
    """Two PIX of the same amount, and a total that is half a minute old: the money booked is that of the first PIX."""
    first, second = _looks_at([(True, 1_999, True), (True, 1_999, True)], lambda count: 2)
    assert [part.pix and part.pix.end_to_end_id for part in first] == ["E0"]
    assert [part.pix and part.pix.end_to_end_id for part in second] == ["E1"]


def test_a_boleto_paid_twice_over_the_counter_is_two_payments_when_two_were_announced() -> None:
    twice = [(False, BOLETO_CENTS, False), (False, BOLETO_CENTS, True)]
    assert [[part.amount_cents for part in parts] for parts in _looks_at(twice, lambda count: count)] == [
        [2 * BOLETO_CENTS]
    ]
    (parts,) = _looks_at(twice, lambda count: count, announced=2)
    assert [(part.amount_cents, part.by_pix) for part in parts] == [(BOLETO_CENTS, False)] * 2
    # A PIX with its id is one of the announced payments, so the rest was paid in one payment.
    (parts,) = _looks_at(
        [(True, BOLETO_CENTS, False), (False, 2 * BOLETO_CENTS, True)], lambda count: count, announced=2
    )
    assert sorted(part.amount_cents for part in parts) == [BOLETO_CENTS, 2 * BOLETO_CENTS]
