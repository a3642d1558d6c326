"""The simulated bank: its tables, what its locations answer, and its HTTP API."""
