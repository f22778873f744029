"""The papers' measurement protocols."""
