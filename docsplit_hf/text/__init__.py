"""Documents in: loading, labelled examples, sentences."""
