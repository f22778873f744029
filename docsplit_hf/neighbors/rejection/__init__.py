"""When a classifier does not know: from which confidence on it answers, and how familiar a text is."""
