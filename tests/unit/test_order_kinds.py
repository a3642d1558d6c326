"""The table of order kinds (commands/bank_orders/kinds.py) answers for every kind."""

import msgspec

from commands.bank_orders.kinds import CLOSE, CobRemoval, OrderKind, OrderLane, kind_of


def test_a_request_names_its_kind() -> None:
    assert len({kind.request for kind in OrderKind}) == len(OrderKind), "one request for each kind"
    assert {kind.lane for kind in OrderKind} == set(OrderLane)
    assert kind_of(CobRemoval()) is OrderKind.COB_REMOVE
    assert kind_of(CLOSE) is OrderKind.BOLETO_RECONCILE


def test_a_request_without_a_scenario_does_not_name_one() -> None:
    """The simulated bank does together what no scenario is for, and looks for the word in the request."""
    assert msgspec.json.encode(CobRemoval()) == b"{}"
    assert b"scenario" in msgspec.json.encode(CobRemoval("refuse"))
