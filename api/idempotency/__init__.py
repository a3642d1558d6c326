"""Idempotency: the guard, its Redis lock, the replay."""
