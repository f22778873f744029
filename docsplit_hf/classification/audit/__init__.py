"""Which examples have wrong labels, are copies of others, or are near no others."""
