from uuid import UUID

from domain.mode import Mode, Owner


def test_owners_sort_as_the_columns_account_and_test_do() -> None:
    one, two = UUID(int=1), UUID(int=2)
    rows = [(two, False), (one, True), (two, True), (one, False)]
    assert sorted(Owner.of(*row) for row in rows) == [Owner.of(*row) for row in sorted(rows)]


def test_a_mode_corresponds_to_its_column_test() -> None:
    assert [(mode, mode.test, Mode.of(mode.test)) for mode in Mode] == [
        ("production", False, Mode.PRODUCTION),
        ("sandbox", True, Mode.SANDBOX),
    ]
    assert {Owner.of(UUID(int=1), True): 1}[Owner(UUID(int=1), Mode.SANDBOX)] == 1
