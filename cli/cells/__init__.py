"""Cells on the command line: list, add and move them, and choose the one that a command works in."""
