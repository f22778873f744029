"""DocSplit, from the views of a document to the trainer."""
