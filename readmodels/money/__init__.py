"""Payments, refunds, withdrawals and the ledger: how they are read and shown."""
