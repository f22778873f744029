"""Equations 1 to 3 of Liang et al. 2023: a classifier interpolated with its nearest neighbors, and calibration."""
