"""Commands that move money, among them refunds, withdrawals, partner shares, reversals and suspense."""
