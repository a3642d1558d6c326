"""Charge schedules: due dates, payment terms, and reminders to payers."""
