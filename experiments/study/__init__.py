"""The controlled study: one start, trained in many ways and measured on equal terms."""
