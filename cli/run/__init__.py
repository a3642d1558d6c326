"""Running the system: everything at once under a supervisor, or a single process."""
