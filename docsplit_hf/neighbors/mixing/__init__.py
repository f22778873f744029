"""The distributions of the experts (the classifier, the neighbors), their mixture, and how it is calibrated."""
