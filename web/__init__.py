"""Web pages: the payer's page, the dashboard, the staff section, the documentation."""
