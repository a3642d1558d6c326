"""The PIX key under which an account receives its charges: the operator sets it, the account's people see the change,
and it applies to charges created afterwards."""

from uuid import UUID

import pytest

from commands.charges.issuer import find_issuer
from commands.merchants.pix_key import set_pix_key, set_receiving_key
from commands.people.audit import Origin
from domain.errors import Refused
from domain.merchants.staff import PLATFORM
from domain.mode import Owner
from readmodels.money.withdrawal import find_destination
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from tests.support.banking import make_account, utc_now
from tests.support.dashboard import owner_in_browser
from tests.support.merchant import database_of, new_merchant, until_answer
from tests.support.system import System

KEYS = ("52998224725", "11222333000181", "+5511987654321", "loja@example.com", "123e4567-e89b-42d3-a456-426614174000")
NO_KEYS = (
    "", " ", "loja", "LOJA@example.com", "loja@example.com\n", "529.982.247-25", "52998224724", "11222333000182",
    "5511987654321", "123E4567-E89B-42D3-A456-426614174000", f"{'x' * 70}@example.com", "0" * 11, "x\x00@example.com",
)  # fmt: skip


async def _change(pool: Pool, account_id: UUID, key: str) -> None:
    async with transaction(pool) as conn:
        await set_pix_key(conn, account_id, key, Origin("quita (operadora)", "terminal", "cli"), now=utc_now())


async def _key(pool: Pool, account_id: UUID) -> str:
    async with pool.acquire() as conn:
        return (await find_issuer(conn, Owner.of(account_id, False), actor="test")).pix_key


async def _log(pool: Pool, log: UUID, account_id: UUID) -> list[tuple[str, str]]:
    rows = await pool.fetch(
        "SELECT email, facts::text FROM audit WHERE account_id = $1 AND subject = $2 AND action = $3 ORDER BY at",
        log, str(account_id), "merchant.pix_key_changed",
    )  # fmt: skip
    return [(row["email"], row["facts"]) for row in rows]


async def test_every_kind_of_key_is_accepted_and_logged_once_in_both_audit_logs(pool: Pool) -> None:
    account_id = await make_account(pool)
    for key in KEYS:
        for _ in range(2):
            await _change(pool, account_id, key)
        assert await _key(pool, account_id) == key
    platform, own = await _log(pool, PLATFORM, account_id), await _log(pool, account_id, account_id)
    assert [who for who, _ in platform] == ["quita (operadora)"] * len(KEYS)
    assert [who for who, _ in own] == ["Plataforma"] * len(KEYS), (
        "the account's people do not learn which member of staff it was"
    )
    for written in (*platform, *own):
        assert not any(key in written[1] for key in KEYS), "keys must be masked: they may be documents or phone numbers"


@pytest.mark.parametrize("key", NO_KEYS, ids=ascii)
async def test_a_malformed_key_is_refused_and_changes_nothing(pool: Pool, key: str) -> None:
    account_id = await make_account(pool)
    before = await _key(pool, account_id)
    with pytest.raises(Refused, match="VALIDATION_ERROR"):
        await _change(pool, account_id, key)
    assert await _key(pool, account_id) == before
    assert await _log(pool, PLATFORM, account_id) == []


async def test_changing_the_key_of_an_unknown_account_is_refused(pool: Pool) -> None:
    with pytest.raises(Refused, match="WALLET_ACCOUNT_NOT_FOUND"):
        await _change(pool, new_id(), KEYS[0])


async def test_a_change_of_the_receiving_key_does_not_redirect_withdrawals(pool: Pool) -> None:
    account_id = await make_account(pool)
    await _change(pool, account_id, "recebe@plataforma.example.com")
    async with pool.acquire() as conn:
        to = await find_destination(conn, account_id=account_id, now=utc_now())
    assert to.pix_key == str(account_id)


async def test_accounts_without_a_key_of_their_own_receive_under_the_platforms_key(
    pool: Pool, table_owner: Pool
) -> None:
    own, plain = await make_account(pool), await make_account(pool)
    await _change(pool, own, "propria@plataforma.example.com")
    try:
        async with transaction(pool) as conn:
            for key in ("antes@plataforma.example.com", "recebe@plataforma.example.com"):
                await set_receiving_key(conn, key, by="quita (operadora)", now=utc_now())
        assert await _key(pool, own) == "propria@plataforma.example.com"
        assert await _key(pool, plain) == "recebe@plataforma.example.com"
        with pytest.raises(Refused, match="VALIDATION_ERROR"):
            async with transaction(pool) as conn:
                await set_receiving_key(conn, "loja", by="quita (operadora)", now=utc_now())
    finally:
        await table_owner.execute("DELETE FROM receiving_key")
    assert await _key(pool, plain) == str(plain)


async def test_a_key_set_on_the_command_line_reaches_the_bank_and_the_owners_audit_log(system: System) -> None:
    async with new_merchant(system) as merchant, database_of(system) as books:
        account_id = str(merchant.record.account_id)

        async def key_at_bank(charge_id: str) -> str:
            async def registered_key() -> str:
                return str(
                    await books.fetchval(
                        "SELECT coalesce(max(b.pix_key), '') FROM simulated_cob b"
                        " JOIN charge_view c ON c.doc ->> 'txid' = b.txid"
                        " WHERE c.charge_id = $1::text::uuid AND b.world = 'production'",
                        charge_id,
                    )
                )

            await until_answer(registered_key)
            return await registered_key()

        before = (await merchant.production.created())["charge_id"]
        assert await key_at_bank(before) == account_id
        said = system.json("merchant", "pix-key", account_id, "+5511987654321")
        assert said == {"account_id": account_id, "pix_key": "+551***4321"}

        async def in_force() -> bool:
            return await key_at_bank((await merchant.production.created())["charge_id"]) == "+5511987654321"

        await until_answer(in_force)
        assert await key_at_bank(before) == account_id
        async with owner_in_browser(system.app_url, merchant.record) as owner:
            page = (await owner.opened("/painel/auditoria")).text
            assert "Trocou a chave Pix da conta" in page
            assert "+551***4321" in page
            assert "+551***4321" not in (await owner.opened("/painel/saques")).text
        refused = system.quita("merchant", "pix-key", account_id, "loja")
        assert (refused.returncode, "pix_key: must be a PIX key" in refused.stderr) == (1, True)
        assert system.quita("merchant", "pix-key", str(new_id()), "loja@example.com").returncode == 1
