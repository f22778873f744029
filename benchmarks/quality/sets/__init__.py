"""Public data sets for few labels: where each is from, and its conversion."""
