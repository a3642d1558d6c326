"""Cells on the command line: which there are, and which one a command is for."""
