"""Every figure of the README and of the pages of results, held against the records beside them."""
