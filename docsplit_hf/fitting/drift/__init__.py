"""Drift: comparison of later texts with those that a classifier was fitted on."""
