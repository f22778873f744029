"""The process and the token that tests of the server share with its benchmarks."""

from benchmarks.served import EDIT_TOKEN, ServerProcess

__all__ = ["EDIT_TOKEN", "ServerProcess"]
