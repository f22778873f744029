"""The checkpoint that ships with the package."""
