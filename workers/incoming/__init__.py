"""The reports of banks: callbacks are checked as hints, payments booked, and receipts reconciled with the ledger."""
