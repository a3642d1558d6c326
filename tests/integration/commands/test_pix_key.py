"""The PIX key of an account: changed by the operator, seen by the account's people, in force for what comes after."""

import secrets
from uuid import UUID

import pytest

from commands.merchants.pix_key import set_pix_key
from commands.money.withdraw import NewWithdrawal, create_withdrawal
from commands.people.sessions import PLATFORM
from domain.errors import Refused
from domain.instants import to_millisecond
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from tests.support.banking import make_account, utc_now
from tests.support.dashboard import person_of
from tests.support.merchant import books_of, new_merchant, until_answer
from tests.support.system import System
from tests.support.wallet import put_money

KEYS = ("52998224725", "11222333000181", "+5511987654321", "loja@example.com", "123e4567-e89b-42d3-a456-426614174000")
NO_KEYS = (
    "", " ", "loja", "LOJA@example.com", "loja@example.com\n", "529.982.247-25", "52998224724", "11222333000182",
    "5511987654321", "123E4567-E89B-42D3-A456-426614174000", f"{'x' * 70}@example.com", "0" * 11, "x\x00@example.com",
)  # fmt: skip


async def _change(pool: Pool, account_id: UUID, key: str) -> None:
    async with transaction(pool) as conn:
        await set_pix_key(
            conn, account_id, key, by="quita (operadora)", address_hash="terminal", request_id="cli", now=utc_now()
        )


async def _key(pool: Pool, account_id: UUID) -> str:
    return str(await pool.fetchval("SELECT pix_key FROM account WHERE account_id = $1", account_id))


async def _log(pool: Pool, log: UUID, account_id: UUID) -> list[tuple[str, str]]:
    rows = await pool.fetch(
        "SELECT email, facts::text FROM audit WHERE account_id = $1 AND subject = $2 AND action = $3 ORDER BY at",
        log, str(account_id), "merchant.pix_key_changed",
    )  # fmt: skip
    return [(row["email"], row["facts"]) for row in rows]


async def test_each_kind_of_key_is_taken_and_written_down_once_in_both_logs(pool: Pool) -> None:
    account_id = await make_account(pool)
    for key in KEYS:
        for _ in range(2):
            await _change(pool, account_id, key)
        assert await _key(pool, account_id) == key
    platform, own = await _log(pool, PLATFORM, account_id), await _log(pool, account_id, account_id)
    assert [who for who, _ in platform] == ["quita (operadora)"] * len(KEYS)
    assert [who for who, _ in own] == ["Plataforma"] * len(KEYS), "its people are not told who of the staff it was"
    for written in (*platform, *own):
        assert not any(key in written[1] for key in KEYS), "keys are masked: they may be documents and telephones"


@pytest.mark.parametrize("key", NO_KEYS, ids=ascii)
async def test_what_is_no_key_changes_nothing(pool: Pool, key: str) -> None:
    account_id = await make_account(pool)
    before = await _key(pool, account_id)
    with pytest.raises(Refused, match="VALIDATION_ERROR"):
        await _change(pool, account_id, key)
    assert await _key(pool, account_id) == before
    assert await _log(pool, PLATFORM, account_id) == []


async def test_nobodys_key_is_not_changed(pool: Pool) -> None:
    with pytest.raises(Refused, match="WALLET_ACCOUNT_NOT_FOUND"):
        await _change(pool, new_id(), KEYS[0])


async def test_a_withdrawal_on_its_way_keeps_the_key_it_was_asked_for_with(pool: Pool) -> None:
    account_id = await make_account(pool)
    await put_money(pool, account_id, 10_000)
    before = await _key(pool, account_id)

    async def withdraw() -> UUID:
        asked = NewWithdrawal(
            account_id=account_id, key=secrets.token_hex(8), fingerprint=bytes(32), withdrawal_id=new_id(),
            amount_cents=100, description=None, external_id=None, actor="test", request_id="test",
        )  # fmt: skip
        async with transaction(pool) as conn:
            assert (
                await create_withdrawal(conn, asked, now=to_millisecond(utc_now()), bank="001", grace_s=3600)
                is not None
            )
        return asked.withdrawal_id

    async def goes_to(withdrawal_id: UUID) -> str:
        return str(
            await pool.fetchval("SELECT request ->> 'pix_key' FROM bank_order WHERE order_id = $1", withdrawal_id)
        )

    on_its_way = await withdraw()
    await _change(pool, account_id, "loja@example.com")
    assert await goes_to(await withdraw()) == "loja@example.com"
    assert await goes_to(on_its_way) == before
    # Nobody else's worker shall send them.
    await pool.execute("DELETE FROM bank_order WHERE account_id = $1", account_id)


async def test_from_the_command_line_to_the_bank_and_the_owners_log(system: System) -> None:
    async with new_merchant(system) as merchant, books_of(system) as books:
        account_id = str(merchant.record.account_id)

        async def key_at_bank(charge_id: str) -> str:
            async def known() -> str:
                return str(
                    await books.fetchval(
                        "SELECT coalesce(max(b.pix_key), '') FROM simulated_cob b"
                        " JOIN charge_view c ON c.doc ->> 'txid' = b.txid"
                        " WHERE c.charge_id = $1::text::uuid AND b.world = 'production'",
                        charge_id,
                    )
                )

            await until_answer(known)
            return await known()

        before = (await merchant.production.created())["charge_id"]
        assert await key_at_bank(before) == account_id
        said = system.json("merchant", "pix-key", account_id, "+5511987654321")
        assert said == {"account_id": account_id, "pix_key": "+551***4321"}

        async def in_force() -> bool:
            return await key_at_bank((await merchant.production.created())["charge_id"]) == "+5511987654321"

        await until_answer(in_force)
        assert await key_at_bank(before) == account_id
        async with person_of(system.app_url, merchant.record) as owner:
            page = (await owner.opened("/painel/auditoria")).text
            assert "Trocou a chave Pix da conta" in page
            assert "+551***4321" in page
            assert "+551***4321" in (await owner.opened("/painel/saques")).text
        refused = system.quita("merchant", "pix-key", account_id, "loja")
        assert (refused.returncode, "pix_key: must be a PIX key" in refused.stderr) == (1, True)
        assert system.quita("merchant", "pix-key", str(new_id()), "loja@example.com").returncode == 1
