"""Webhooks: signature, retry delays, circuit breaker, address rules."""
