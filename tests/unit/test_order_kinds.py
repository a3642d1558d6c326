"""The table of order kinds (commands/bank_orders/kinds.py) has a request and a lane for every kind."""

import msgspec

from commands.bank_orders.kinds import CLOSE, CobRemoval, OrderKind, OrderLane, kind_of


def test_each_order_kind_has_its_own_request() -> None:
    assert len({kind.request for kind in OrderKind}) == len(OrderKind), "one request for each kind"
    assert {kind.lane for kind in OrderKind} == set(OrderLane)
    assert kind_of(CobRemoval()) is OrderKind.COB_REMOVE
    assert kind_of(CLOSE) is OrderKind.BOLETO_RECONCILE


def test_a_request_without_a_scenario_has_no_scenario_field() -> None:
    """The simulated bank executes requests without a scenario together, and searches a request for the word."""
    assert msgspec.json.encode(CobRemoval()) == b"{}"
    assert b"scenario" in msgspec.json.encode(CobRemoval("refuse"))
