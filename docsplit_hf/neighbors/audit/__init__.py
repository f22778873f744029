"""The audit of a datastore: which labels the others contradict, and which examples are copies, or near nothing."""
