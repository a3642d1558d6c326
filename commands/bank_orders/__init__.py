"""Orders, which are queued calls to the bank in PostgreSQL: place them, wait for them, give them up."""
