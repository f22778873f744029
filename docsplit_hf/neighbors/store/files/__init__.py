"""What a datastore is on the disk and on the Hub."""
