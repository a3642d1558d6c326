"""X-Sandbox-Bank affects each call that changes a charge or moves money at a bank, and no other call."""

import inspect
from types import SimpleNamespace
from typing import Any, cast

import pytest

from banks.protocol import Bank, BoletoBank, CobvBank, PixBank, Rejected, TransferBank, Unknown
from banks.scenario import acting

PORT = {"pix": PixBank, "cobvs": CobvBank, "boletos": BoletoBank, "transfers": TransferBank}
CHANGES = {
    "put_cob", "remove_cob", "revise_cob", "return_pix", "send_pix", "register_boleto",
    "redate_boleto", "write_off_boleto", "put_cobv", "remove_cobv", "revise_cobv",
}  # fmt: skip
UNAFFECTED = {
    "get_cob", "received_page", "get_cobv", "find_return", "find_transfer", "sent_page", "find_boleto", "paid_page",
    "create_locations", "create_cobv_location", "register_callback",
}  # fmt: skip
REFUSED = CHANGES - {"remove_cob", "revise_cob", "remove_cobv", "revise_cobv"}
METHODS = [
    (part, name)
    for part, protocol in PORT.items()
    for name, method in vars(protocol).items()
    if inspect.iscoroutinefunction(method) and not name.startswith("_")
]


class RecordingPart:
    """A part of a bank: records every call and answers it with its name."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def call() -> str:
            self.calls.append(name)
            return name

        return call


@pytest.mark.parametrize(("part", "name"), METHODS)
@pytest.mark.parametrize("scenario", ["unavailable", "refuse", "lost_reply"])
async def test_a_scenario_affects_exactly_the_calls_that_change_a_charge_or_move_money(
    part: str, name: str, scenario: str
) -> None:
    bank = SimpleNamespace(**{each: RecordingPart() for each in PORT})
    answer = await getattr(getattr(acting(cast("Bank", bank), scenario, attempt=1), part), name)()
    calls = getattr(bank, part).calls
    if name not in CHANGES or (scenario == "refuse" and name not in REFUSED):
        assert (answer, calls) == (name, [name])
    elif scenario == "refuse":
        assert isinstance(answer, Rejected)
        assert calls == []
    else:
        assert isinstance(answer, Unknown)
        assert calls == ([name] if scenario == "lost_reply" else [])


def test_every_method_of_the_bank_interface_is_listed_as_a_change_or_as_unaffected() -> None:
    assert sorted(name for _, name in METHODS) == sorted([*CHANGES, *UNAFFECTED])
    assert {name for name, part in vars(Bank).items() if isinstance(part, property)} == set(PORT)
