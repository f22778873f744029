"""How it is measured."""
