"""Sweeps: expiry, partitions, location pool, report totals, log retention."""
