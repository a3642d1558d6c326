"""Commands that move money: refunds, withdrawals, partner shares."""
