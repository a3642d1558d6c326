"""Charges, schedules and boletos: how they are read and shown."""
