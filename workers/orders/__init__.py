"""Bank orders: claimed, carried out at the bank, and settled."""
