"""What processes of the installation tell each other: who does what, who is alive, whose turn it is."""
