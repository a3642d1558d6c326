"""Banks: the port, the adapter of Banco do Brasil, and the simulated bank."""
