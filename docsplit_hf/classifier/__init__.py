"""Retrieval-augmented classification: the pipeline, its datastore, editing, fitting, calibration, sorting."""
