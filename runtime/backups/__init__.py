"""Base backups and the write-ahead log of the database, in a folder: to have it as it was at any instant."""
