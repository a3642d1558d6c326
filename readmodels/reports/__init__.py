"""Reports for the platform's operator and for merchants, read from daily totals."""
