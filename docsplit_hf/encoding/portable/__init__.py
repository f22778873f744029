"""Model files that are copied into every saved classifier; within docsplit_hf they import only one another."""
