"""The HTTP API for merchants' programs, /v1."""
