"""The command `quita`: runs the service, and has the operator's commands. May import every other package."""
