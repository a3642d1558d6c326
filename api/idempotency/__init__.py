"""Idempotency: the guard, its Redis lock, the used keys, the replay."""
