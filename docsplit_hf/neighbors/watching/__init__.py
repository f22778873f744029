"""What came in against what the store knows: a report on texts of a period."""
