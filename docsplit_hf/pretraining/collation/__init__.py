"""Documents into batches of positive pairs."""
