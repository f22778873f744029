"""Other systems: collections of Milvus, and pipelines of datatrove."""
