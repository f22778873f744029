"""Benchmarks of large datastores, on the disk and on a server."""
