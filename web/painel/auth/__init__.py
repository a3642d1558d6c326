"""Signing in, the second factor, sessions."""
