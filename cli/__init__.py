"""The command `quita`: running the service, and the operator's commands. May import every other package."""
