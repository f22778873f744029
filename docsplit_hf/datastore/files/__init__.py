"""Files of a datastore on the disk and on the Hub."""
