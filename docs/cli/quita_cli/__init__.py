"""Quita's API from a terminal. It needs a credential and Python's standard library, and no code of the service."""

VERSION = "1.0.0"
