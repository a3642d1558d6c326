"""Payers' personal data: export and erasure."""
