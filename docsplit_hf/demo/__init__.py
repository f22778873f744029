"""Web page that classifies documents without code."""
