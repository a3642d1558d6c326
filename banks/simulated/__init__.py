"""The simulated bank: its books, what its locations answer, and its face on the wire."""
