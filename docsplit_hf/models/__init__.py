"""Everything that has weights."""
