"""Load documents and labeled examples, and split texts into sentences."""
