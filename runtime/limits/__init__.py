"""Bounds on what one client, one address or one account may take of a process."""
