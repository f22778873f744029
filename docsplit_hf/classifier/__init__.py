"""Retrieval-augmented classification: pipeline, ensemble, calibration, rejection, audit and drift."""
