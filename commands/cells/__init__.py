"""Cells added to an installation and moved to other servers, by the owner of the tables."""
