"""Sheets of charges, as spreadsheets write them."""
