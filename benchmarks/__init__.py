"""Scripts behind the figures in the documentation; run them from the root: ``python -m benchmarks.quality.audit``."""
