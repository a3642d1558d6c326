"""E-mail: write what is due, and send it."""
