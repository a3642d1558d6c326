"""Reads of the merchants' dashboard and the staff section."""
