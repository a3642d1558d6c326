"""The section of the platform's own staff, at /plataforma. Its sign-in is separate from the merchants'."""
