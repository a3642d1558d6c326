"""A valid amount is kept to the cent everywhere it is shown; any other value is refused with AMOUNT_INVALID."""

import re
import secrets
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.br_code_reader import parse_br_code
from tests.support.in_process import Api

CENTS_MAX = 999_999_999_999

quick = settings(
    max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)


def in_reais(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def spellings(cents: int) -> list[str]:
    """All spellings of an amount that the contract allows, with up to ten digits of reais."""
    whole, rest = divmod(cents, 100)
    ways = [f"{whole}.{rest:02}", f"{whole:010}.{rest:02}"]
    if rest % 10 == 0:
        ways.append(f"{whole}.{rest // 10}")
    if rest == 0:
        ways.append(str(whole))
    return ways


@quick
@given(cents=st.integers(1, CENTS_MAX) | st.sampled_from([1, 9, 10, 99, 100, 101, 1000, CENTS_MAX - 1, CENTS_MAX]))
async def test_an_amount_is_the_same_to_the_cent_in_the_charge_and_in_its_br_code(api: Api, cents: int) -> None:
    for text in spellings(cents):
        made = await api.create(amount=text)
        assert made["amount"] == in_reais(cents)
        assert parse_br_code(made["pix"]["qr_code"])["54"] == in_reais(cents)
        read = await api.get(f"/v1/charges/{made['charge_id']}", token=await api.token())
        assert read.json() == made


async def test_balance_and_ledger_add_up_to_the_cent(api: Api) -> None:
    token, account = await api.token(), api.first.account_id
    total = 0
    for cents in (1, 10, 99, 101, 123_456_789, CENTS_MAX, CENTS_MAX - 7):
        made = await api.create(amount=in_reais(cents))
        paid = await api.post(f"/v1/charges/{made['charge_id']}/simulate-payment", None, token=token)
        assert paid.json()["payment"]["amount"] == paid.json()["payment"]["net_amount"] == in_reais(cents)
        total += cents
        balance = (await api.get(f"/v1/accounts/{account}/balance", token=token)).json()["balance"]
        line = (await api.get(f"/v1/accounts/{account}/ledger?limit=1", token=token)).json()["data"][0]
        assert balance == line["balance_after"] == in_reais(total)
        assert line["amount"] == in_reais(cents)
    lines = (await api.get(f"/v1/accounts/{account}/ledger?limit=100", token=token)).json()["data"]
    assert sum(int(line["amount"].replace(".", "")) for line in lines) == total


near_amounts = st.text("0123456789.,+-eE_ \n\t٠١٣０９xX%\u00a0\u2009", max_size=14)


@settings(quick, max_examples=400)
@given(
    text=near_amounts | st.text(max_size=12) | st.floats().map(str) | st.decimals().map(str) | st.integers().map(str)
)
async def test_a_text_is_an_amount_exactly_when_the_contract_says_so(api: Api, text: str) -> None:
    good = re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,2})?", text, re.ASCII) is not None and bool(re.search("[1-9]", text))
    reply = await api.post("/v1/charges/pix", api.pix(text), token=await api.token(), key=secrets.token_hex(8))
    if good:
        assert reply.status == 201
    else:
        assert reply.code() == "AMOUNT_INVALID"


@quick
@given(
    value=st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.lists(st.text(max_size=3), max_size=2) | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
)  # fmt: skip
async def test_a_value_of_another_json_type_is_no_amount(api: Api, value: Any) -> None:
    reply = await api.post("/v1/charges/pix", api.pix(value), token=await api.token(), key=secrets.token_hex(8))
    assert reply.code() == "AMOUNT_INVALID"
