"""The dashboard for merchants' people, in Portuguese; table.py has its pages and the roles that may open them."""
