"""Running the system: everything at once, supervised, or one process of it."""
