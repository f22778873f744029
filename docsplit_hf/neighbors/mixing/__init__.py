"""What the neighbors say, mixed with the classifier and calibrated."""
