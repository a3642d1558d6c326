"""The infrastructure of the other packages: settings, PostgreSQL, Redis, log, batching, sealing, embedded servers."""

VERSION = "1.0.0"
"""The version of the service and its API; pyproject.toml and quita-cli have the same (tests/unit/test_shipping.py)."""
