"""Coordination of the installation's processes: who does what, who is alive, whose turn it is."""
