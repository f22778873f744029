"""Which encoder is worth it on one's own texts: tasks, systems, protocols, records and their report."""
