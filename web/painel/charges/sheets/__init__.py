"""Sheets of charges: reading .xlsx and CSV files, and the empty sheet to fill in."""
