"""Scripts for a release: the checkpoint and its corpus, robustness, and the trace of an answer."""
