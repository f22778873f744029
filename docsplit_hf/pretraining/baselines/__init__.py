"""The papers' other objectives."""
