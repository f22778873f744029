"""A prior of the ensemble that is learned from many data sets, and its comparison with chosen constants."""
