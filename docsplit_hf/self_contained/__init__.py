"""A saved classifier with the code that answers: for a process without docsplit_hf, and for Inference Endpoints."""
