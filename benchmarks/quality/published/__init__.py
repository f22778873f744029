"""Tables that others published, measured here by their protocols."""
