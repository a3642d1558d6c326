"""Cells: databases side by side, each with some of the accounts. The ids and tokens of a row tell its cell."""
