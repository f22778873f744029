"""What is read of texts longer than the encoder reads: a file for each strategy."""
