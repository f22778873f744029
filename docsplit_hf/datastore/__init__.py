"""KNNDatastore: its rows, its index, its files."""
