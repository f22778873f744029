"""The keys of a datastore, in memory or on the disk, and those of passages."""
