"""DamagedCheckpointError: raised for files that cannot be weights. No torch."""

from __future__ import annotations


class DamagedCheckpointError(Exception):
    """A checkpoint has damaged files. Not a ``ValueError``, after which ``pipeline`` would try its other classes."""
