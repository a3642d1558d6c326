"""Charges, schedules and boletos as they are read."""
