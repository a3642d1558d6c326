"""Webhook delivery: dispatcher, attempt, lanes, guarded connections."""
