"""The same tasks, in processes whose clock is an hour behind or ahead: CLOCK_ERROR is how many seconds it is off."""

from __future__ import annotations

import importlib
import os
import time

_right = time.time
_error = float(os.environ["CLOCK_ERROR"])
time.time = lambda: _right() + _error

lw = importlib.import_module("named").lw  # not before the clock is wrong
