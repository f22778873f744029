"""What is evaluated on."""
