"""Working in several cells, for the staff."""
