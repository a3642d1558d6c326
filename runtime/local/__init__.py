"""This machine: the files and child processes of local work, and who runs its PostgreSQL."""
