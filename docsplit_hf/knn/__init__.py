"""Classification with neighbors: the datastore, what its neighbors say, and the pipeline."""
