"""Pages about payments, the ledger, refunds and withdrawals."""
