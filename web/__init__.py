"""Pages: the payer page, the dashboard, the staff section, the documentation."""
