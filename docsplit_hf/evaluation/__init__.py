"""The papers' experiments, on equal terms for every system."""
