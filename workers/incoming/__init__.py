"""What banks report: callbacks checked as hints, payments booked, and what they received reconciled with the ledger."""
