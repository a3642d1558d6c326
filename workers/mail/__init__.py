"""E-mail: what is due is written and sent."""
