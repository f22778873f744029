"""A folder that files are sorted into by label."""
