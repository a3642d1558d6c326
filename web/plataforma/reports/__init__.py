"""Reports, for the staff."""
