"""Payments, refunds, withdrawals and the ledger as they are read."""
