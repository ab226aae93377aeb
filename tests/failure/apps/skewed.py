"""The tasks of `named`, in processes whose clock is CLOCK_ERROR seconds fast or slow."""

from __future__ import annotations

import importlib
import os
import time

_right = time.time
_error = float(os.environ["CLOCK_ERROR"])
time.time = lambda: _right() + _error

lw = importlib.import_module("named").lw  # import only after the clock is changed
