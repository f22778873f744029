"""The one core of OpenVINO in a process."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino


@functools.cache
def openvino_core() -> openvino.Core:
    """It never ends, as a second one would do harm.

    A core that compiles for the CPU sets a stack of its own for signals (``sigaltstack``), and at its end sets the one
    that was there before. Of two that end in the order in which they began, the second sets the first one's, which is
    freed: at the next signal, be it Ctrl-C or the end of a child, the process crashes (openvino 2026.4.1).
    """
    import openvino

    return openvino.Core()
