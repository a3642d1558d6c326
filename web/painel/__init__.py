"""The dashboard, for merchants' people: signed in, in Portuguese, one table of pages and who may open them."""
