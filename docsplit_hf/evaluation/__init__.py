"""Compare encoders on a user's own texts: systems, probes, and the comparison."""
