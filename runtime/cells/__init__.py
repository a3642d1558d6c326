"""Cells: databases side by side, each with some of the accounts. Whatever names a row tells its cell."""
