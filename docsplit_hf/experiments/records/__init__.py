"""What was measured, and on what it ran."""
