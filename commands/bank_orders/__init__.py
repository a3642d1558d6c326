"""What the bank is to do: orders in PostgreSQL, as they are placed, waited for and given up."""
