"""Losses, arguments and trainers."""
