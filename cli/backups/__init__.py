"""What is done for the day on which the database is lost."""
