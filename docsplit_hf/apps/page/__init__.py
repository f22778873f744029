"""The web page that classifies documents without code."""
