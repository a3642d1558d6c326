"""Base backups and the write-ahead log of the database, in a folder, from which any instant can be restored."""
