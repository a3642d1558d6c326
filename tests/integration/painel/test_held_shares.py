"""A partner's held shares, which are not in the balance yet, are shown beside the statement."""

from datetime import UTC, datetime, timedelta

from domain.brazilian import brl, moment
from runtime.postgres import Pool
from tests.support.banking import make_account
from tests.support.dashboard import a_merchant, owner_in_browser, settings_with
from tests.support.pages import serving
from tests.support.partners import create_partner, paid, post_partner_shares


async def test_a_held_share_is_shown_until_it_is_in_the_balance(pool: Pool) -> None:
    merchant, partner = await make_account(pool), await a_merchant(pool)
    made = await create_partner(pool, 1_000, account_id=partner.account_id)
    settings = settings_with(PARTNER_SHARE_HELD_DAYS="180")
    async with (
        serving(pool, lambda: datetime.now(UTC), settings) as address,
        owner_in_browser(address, partner) as owner,
    ):
        assert "Participações a liberar" not in (await owner.opened("/painel/extrato")).text
        earned_at = datetime.now(UTC) - timedelta(days=3)
        await paid(pool, merchant, 10_000, made.integrador_code, now=earned_at)
        await paid(pool, merchant, 2_345, made.integrador_code)
        # Neither a share of another partner nor one of the sandbox is counted.
        await paid(pool, merchant, 70_000, (await create_partner(pool, 1_000)).integrador_code, now=earned_at)
        await paid(pool, merchant, 80_000, made.integrador_code, test=True, now=earned_at)
        page = (await owner.opened("/painel/extrato")).text
        assert f"Participações a liberar: {brl(1_234)} " in page
        assert f"a primeira em {moment(earned_at + timedelta(days=180))} " in page
        assert f"Saldo {brl(0)}" in page
        await post_partner_shares(pool)
        page = (await owner.opened("/painel/extrato")).text
        assert "Participações a liberar" not in page
        assert f"Saldo {brl(1_234)}" in page
