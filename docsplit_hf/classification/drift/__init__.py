"""Drift: whether later texts still resemble those that a classifier was fitted on."""
