"""Commands about cells, run as the owner of the tables: add a cell, move it to another server, set its standby."""
