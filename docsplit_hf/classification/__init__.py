"""Retrieval-augmented classification: the pipeline, the ensemble of experts, editing, audit and drift."""
