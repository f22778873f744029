"""The files that travel in every saved classifier: they import nothing of ours but one another."""
