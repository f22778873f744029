"""What is compared."""
