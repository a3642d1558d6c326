"""Reports for the operator, from daily totals."""
