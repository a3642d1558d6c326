"""This machine: the files and child processes of local work, and the user that runs its PostgreSQL."""
