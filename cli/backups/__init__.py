"""Backups of the database, recovery after a restore, and the export of an account."""
