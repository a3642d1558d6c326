"""The section of the platform's own staff, at /plataforma: signed in to apart from merchants' people."""
