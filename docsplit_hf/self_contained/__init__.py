"""Code that is saved with a classifier, for use without docsplit_hf and in Inference Endpoints."""
