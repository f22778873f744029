"""Other systems: pipelines of datatrove."""
