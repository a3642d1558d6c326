"""What the other packages run on: settings, PostgreSQL, Redis, log, batching, sealing, embedded servers."""
