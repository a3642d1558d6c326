"""Registration of a real merchant: the data it requires, and that only its owner gets a secret."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from commands.merchants.kyc import Kyc, decide_demo_kyc, decide_kyc
from commands.merchants.registration import (
    Address,
    MerchantRegistration,
    correct_registration,
    register_merchant,
    set_address,
)
from domain.errors import Code, Refused
from runtime.ids import new_id
from runtime.seal import Seal

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
SEAL = Seal(bytes(range(32)))
ADDRESS = Address("Rua das Flores", "10", "Centro", "São João del-Rei", "MG", "36300000")


def new_registration(**more: Any) -> MerchantRegistration:
    fields: dict[str, Any] = {
        "name": "Padaria Aurora Ltda", "document": "11444777000161", "email": f"{uuid4().hex}@example.com",
        "payout_key": "financeiro@aurora.example", "address": ADDRESS,
    }  # fmt: skip
    return MerchantRegistration(**{**fields, **more})


async def test_a_new_merchant_is_pending_with_one_owner_who_is_mailed_a_link_and_no_credentials(conn: Any) -> None:
    form = new_registration()
    made = await register_merchant(conn, form, account_id=new_id(), letters=False, now=NOW, seal=SEAL)
    account = await conn.fetchrow("SELECT * FROM account WHERE account_id = $1", made.account_id)
    assert (account["kyc"], account["document"], account["pix_key"]) == ("pending", form.document, form.payout_key)
    assert msgspec.json.decode(account["address"], type=Address) == ADDRESS
    person = await conn.fetchrow("SELECT * FROM dashboard_user WHERE account_id = $1", made.account_id)
    assert (person["email"], person["role"], person["password_hash"]) == (form.email, "owner", None)
    assert await conn.fetchval("SELECT count(*) FROM credential WHERE account_id = $1", made.account_id) == 0
    assert await conn.fetchval("SELECT count(*) FROM mail WHERE kind = 'access' AND state = 'waiting'") >= 1
    with pytest.raises(Refused) as refused:
        await register_merchant(
            conn, new_registration(email=form.email), account_id=new_id(), letters=False, now=NOW, seal=SEAL
        )
    assert refused.value.fields == {"email": "is taken"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("document", "11444777000162"), ("document", "11444777000"), ("document", "39053344705"),
        ("document", "11111111111111"), ("document", "11.444.777/0001-61"), ("document", "12ABC34501DE35"),
        ("document", ""), ("name", ""), ("name", " "), ("name", "x" * 101), ("name", "株式会社"), ("name", "123"),
        ("name", "Loja\n"), ("name", "Loja 🍞"), ("payout_key", "x"), ("payout_key", "11144477735x"),
        ("payout_key", "11144477700"), ("email", "x"), ("email", "A@example.com"),
    ],
)  # fmt: skip
async def test_an_invalid_registration_is_refused_by_its_field(conn: Any, field: str, value: str) -> None:
    with pytest.raises(Refused) as refused:
        await register_merchant(
            conn, new_registration(**{field: value}), account_id=new_id(), letters=False, now=NOW, seal=SEAL
        )
    assert refused.value.code is Code.VALIDATION_ERROR
    assert set(refused.value.fields or {}) == {field}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("street", ""), ("street", "x" * 81), ("street", "Rua\x00"), ("number", ""), ("district", " "),
        ("city", "東京"), ("state", "XX"), ("state", "sp"), ("zip_code", "3630000"), ("zip_code", "00000000"),
    ],
)  # fmt: skip
async def test_an_address_that_a_boleto_cannot_print_is_refused_by_its_field(conn: Any, field: str, value: str) -> None:
    wrong = msgspec.structs.replace(ADDRESS, **{field: value})
    made = await register_merchant(conn, new_registration(), account_id=new_id(), letters=False, now=NOW, seal=SEAL)
    for refusing in (
        register_merchant(
            conn, new_registration(address=wrong), account_id=new_id(), letters=False, now=NOW, seal=SEAL
        ),
        set_address(conn, made.account_id, wrong),
        correct_registration(conn, made.account_id, "Loja", "11444777000161", wrong, letters=False),
    ):
        with pytest.raises(Refused) as refused:
            await refusing
        assert set(refused.value.fields or {}) == {field}


async def test_all_invalid_fields_are_named_at_once(conn: Any) -> None:
    wrong = new_registration(
        name="", document="1", payout_key="x", address=msgspec.structs.replace(ADDRESS, city="", state="")
    )
    with pytest.raises(Refused) as refused:
        await register_merchant(conn, wrong, account_id=new_id(), letters=False, now=NOW, seal=SEAL)
    assert set(refused.value.fields or {}) == {"name", "document", "payout_key", "city", "state"}


async def test_a_cnpj_with_letters_is_accepted_where_the_setting_allows_it(conn: Any) -> None:
    made = await register_merchant(
        conn, new_registration(document="12ABC34501DE35"), account_id=new_id(), letters=True, now=NOW, seal=SEAL
    )
    document = "SELECT document FROM account WHERE account_id = $1"
    assert await conn.fetchval(document, made.account_id) == "12ABC34501DE35"
    with pytest.raises(Refused):
        await register_merchant(
            conn, new_registration(document="12ABC34501DE36"), account_id=new_id(), letters=True, now=NOW, seal=SEAL
        )


INCOMPLETE = {
    "address": "UPDATE account SET address = NULL WHERE account_id = $1",
    "document": "UPDATE account SET document = '00000000000000' WHERE account_id = $1",
    "payout_key": "UPDATE account SET pix_key = '' WHERE account_id = $1",
}


@pytest.mark.parametrize("before", [Kyc.PENDING, Kyc.REJECTED])
@pytest.mark.parametrize("missing", [["address"], ["document", "payout_key"], list(INCOMPLETE)])
async def test_an_incomplete_registration_is_not_approved_and_all_missing_fields_are_named(
    conn: Any, before: Kyc, missing: list[str]
) -> None:
    made = await register_merchant(conn, new_registration(), account_id=new_id(), letters=False, now=NOW, seal=SEAL)
    if before is Kyc.REJECTED:
        await decide_kyc(conn, made.account_id, before, "documento ilegível", now=NOW)
    for each in missing:
        await conn.execute(INCOMPLETE[each], made.account_id)
    with pytest.raises(Refused) as refused:
        await decide_kyc(conn, made.account_id, Kyc.APPROVED, "", now=NOW)
    assert set(refused.value.fields or {}) == set(missing)
    state = "SELECT kyc FROM account WHERE account_id = $1"
    assert await conn.fetchval(state, made.account_id) == before
    if before is Kyc.PENDING:
        await decide_kyc(conn, made.account_id, Kyc.REJECTED, "falta o endereço", now=NOW)
    await decide_demo_kyc(conn, made.account_id, Kyc.APPROVED, "", now=NOW)
    # Lifting a block does not require data that the approval did not require.
    await decide_kyc(conn, made.account_id, Kyc.BLOCKED, "suspeita de fraude", now=NOW)
    await decide_kyc(conn, made.account_id, Kyc.APPROVED, "", now=NOW)
    assert await conn.fetchval(state, made.account_id) == "approved"


async def test_a_complete_registration_is_approved_before_its_owner_has_a_password(conn: Any) -> None:
    made = await register_merchant(conn, new_registration(), account_id=new_id(), letters=False, now=NOW, seal=SEAL)
    await decide_kyc(conn, made.account_id, Kyc.APPROVED, "", now=NOW)
    assert await conn.fetchval("SELECT kyc FROM account WHERE account_id = $1", made.account_id) == "approved"


async def test_an_approved_registration_can_no_longer_be_corrected(conn: Any) -> None:
    made = await register_merchant(conn, new_registration(), account_id=new_id(), letters=False, now=NOW, seal=SEAL)
    await correct_registration(conn, made.account_id, "Padaria Alba", "16727230000197", ADDRESS, letters=False)
    assert await conn.fetchval("SELECT name FROM account WHERE account_id = $1", made.account_id) == "Padaria Alba"
    await decide_kyc(conn, made.account_id, Kyc.APPROVED, "", now=NOW)
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            await correct_registration(conn, made.account_id, "Outra", "11444777000161", ADDRESS, letters=False)
        assert set(refused.value.fields or {}) == {"kyc"}
        # A block is lifted without a new review, so a blocked registration must not change into another company.
        await decide_kyc(conn, made.account_id, Kyc.BLOCKED, "suspeita de fraude", now=NOW)
    await set_address(conn, made.account_id, msgspec.structs.replace(ADDRESS, number="12"))
