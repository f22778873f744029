"""Retrieval-augmented classification: the datastore, the mixture, the pipeline."""
