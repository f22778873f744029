"""Experts on labels, from few examples and many documents without labels, and what each of them counts."""
