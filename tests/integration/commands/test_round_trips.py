"""A batch of payments takes few round trips to PostgreSQL, and holds the account's clock row only for the commit."""

import secrets
from datetime import UTC, datetime

import pytest

from commands.charges.pay import Confirmation, confirm_payments
from domain.charge import Charge, Status
from domain.merchants.fees import NO_FEES, FeeTerms
from runtime.postgres import Pool, session
from runtime.seal import Seal
from tests.support.banking import SECRET_KEY, make_account, make_charges, new_locations

SEAL = Seal(bytes.fromhex(SECRET_KEY))


@pytest.mark.parametrize("fees", [NO_FEES, FeeTerms(pix_bps=99)], ids=["free", "with fees"])
@pytest.mark.parametrize("count", [1, 100])
async def test_a_batch_of_payments_takes_six_round_trips_and_only_the_commit_follows_the_clock(
    pool: Pool, count: int, fees: FeeTerms
) -> None:
    account_id = await make_account(pool)
    asked: list[str] = []
    for _ in range(2):  # On first use a connection looks up types.
        charge_ids = await make_charges(pool, account_id, new_locations(count), test=False, amount_cents=1_000)
        now = datetime.now(UTC)
        received = [
            Confirmation(
                charge_id=each, end_to_end_id=f"E00000000{secrets.token_hex(11)}", amount_cents=1_000, paid_at=now
            )
            for each in charge_ids
        ]
        async with session(pool) as conn:
            asked.clear()
            with conn.query_logger(lambda record: asked.append(record.query)):
                async with conn.transaction():
                    outcomes = await confirm_payments(conn, received, now=now, seal=SEAL, fees=fees)
        assert all(isinstance(each, Charge) and each.status == Status.PAID for each in outcomes)
    clock = next(at for at, query in enumerate(asked) if "INSERT INTO account_clock" in query)
    assert len(asked) == 6, asked
    assert len(asked) - clock - 1 == 1, "only the commit may follow the update of the clock"
    assert asked[-1].startswith("COMMIT")
    lines = await pool.fetchval("SELECT count(*) FROM read_ledger WHERE account_id = $1", account_id)
    assert lines == 2 * count * (1 if fees is NO_FEES else 2)
