"""A decision model behind an address that labels documents when a classifier is fitted, and never later."""
