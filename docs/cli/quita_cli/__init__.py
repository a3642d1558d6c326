"""Quita's API from a terminal. It needs Python's standard library, a credential, and nothing of the service itself."""

VERSION = "1.0.0"
