"""A datastore on a Milvus server, by its address."""
