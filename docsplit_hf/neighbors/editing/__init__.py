"""Adding examples, documents and labels, and giving examples other labels."""
