"""The door for time: what has to be done by itself. Facts stand in PostgreSQL; a wake-up is only a wake-up."""
