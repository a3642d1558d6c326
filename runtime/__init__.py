"""What the other rooms run on: settings, PostgreSQL, Redis, log, batching, sealing, embedded servers."""
