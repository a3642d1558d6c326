"""The filters of a list are derived from the fields of their struct, and are parsed alike for the API and the pages."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated
from uuid import UUID

from readmodels.filters import Digits, Fault, FilterKind, Fingerprint, OneOf, filters_of, read_filters
from readmodels.page import ListFilters, SortOrder

CHARGE = "01a1fdb9-6fd9-7433-94a2-937b5542916e"


class Sample(ListFilters, frozen=True, kw_only=True):
    statuses: Annotated[tuple[str, ...], OneOf(("paid", "pending"), "status")] = ()
    method: Annotated[str | None, OneOf(("pix",))] = None
    document_hash: Annotated[str | None, Fingerprint("document")] = None
    number: Annotated[str | None, Digits()] = None
    external_id: str | None = None
    charge_id: UUID | None = None
    after: int | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    due_from: date | None = None
    due_to: date | None = None


class Parameters:
    """The parameters of a request; records a fault for each that cannot be parsed."""

    def __init__(self, **given: list[str]) -> None:
        self.given = given
        self.faults: dict[str, Fault] = {}

    def values(self, name: str) -> Sequence[str]:
        return self.given.get(name, [])

    def is_plain(self, text: str) -> bool:
        return text.isprintable()

    def fault(self, name: str, fault: Fault, fact: object = None) -> None:
        self.faults[name] = fault


def test_every_field_is_a_filter_of_the_kind_of_its_type() -> None:
    kinds = {each.parameters: each.kind for each in filters_of(Sample)}
    assert kinds == {
        ("status",): FilterKind.CHOICES,
        ("method",): FilterKind.CHOICE,
        ("document",): FilterKind.FINGERPRINT,
        ("number",): FilterKind.DIGITS,
        ("external_id",): FilterKind.TEXT,
        ("charge_id",): FilterKind.ID,
        ("after",): FilterKind.SEQUENCE,
        ("created_from", "created_to"): FilterKind.INSTANTS,
        ("due_from", "due_to"): FilterKind.DAYS,
    }


def test_each_parameter_is_parsed_by_its_kind_and_an_absent_one_filters_nothing() -> None:
    parameters = Parameters(
        status=["pending", "paid", "paid"], method=["pix"], document=["52-99"], number=["1-2"], external_id=["a"],
        charge_id=[CHARGE], after=["7"], created_from=["2026-11-21"], due_to=["2026-11-30"], order=["asc"],
    )  # fmt: skip
    assert read_filters(Sample, parameters, str.swapcase) == Sample(
        statuses=("paid", "pending"),
        method="pix",
        document_hash="5299",
        number="12",
        external_id="a",
        charge_id=UUID(CHARGE),
        after=7,
        created_from=datetime(2026, 11, 21, 3, tzinfo=UTC),
        due_to=date(2026, 11, 30),
        order=SortOrder.ASC,
    )
    assert parameters.faults == {}
    assert read_filters(Sample, Parameters(), str) == Sample()
    # No digits are left of these. They stay filters that match nothing, because no filter would match everything.
    assert read_filters(Sample, Parameters(document=["-"], number=[". /"]), str) == Sample(
        document_hash="-", number=". /"
    )


def test_a_parameter_that_cannot_be_parsed_is_a_fault_under_its_name() -> None:
    parameters = Parameters(
        status=["paid", "x"], document=[""], number=["1" * 256], external_id=["\0"], charge_id=[CHARGE.upper()],
        after=["-1"], created_from=["21/11/2026"], due_from=["2026-12-01"], due_to=["2026-11-30"],
    )  # fmt: skip
    read_filters(Sample, parameters, str)
    assert parameters.faults == {
        "status": Fault.NOT_ONE_OF,
        "document": Fault.EMPTY,
        "number": Fault.TOO_LONG,
        "external_id": Fault.CHARACTERS,
        "charge_id": Fault.NO_ID,
        "after": Fault.NO_NUMBER,
        "created_from": Fault.NO_DAY,
        "due_to": Fault.ENDS_FIRST,
    }
