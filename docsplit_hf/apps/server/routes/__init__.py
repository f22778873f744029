"""Addresses of the server, one file for each kind of request."""
