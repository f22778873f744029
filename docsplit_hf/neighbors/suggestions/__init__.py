"""Which documents without labels to label next."""
