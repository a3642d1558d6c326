"""The simulated bank: its books, the payloads of its locations, and its HTTP API."""
