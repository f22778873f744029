"""Documents in: loading, labeled examples, sentences."""
