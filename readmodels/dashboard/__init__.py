"""What the dashboard and the staff section show."""
