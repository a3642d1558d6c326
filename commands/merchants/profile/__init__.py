"""What a merchant shows to whoever pays: whom to ask, and its logo."""
