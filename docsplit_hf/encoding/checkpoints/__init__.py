"""Opening, checking and replacing checkpoints, and the one that ships."""
