"""A module that needs one that is not installed."""

from __future__ import annotations

import a_module_that_is_not_installed  # type: ignore[import-not-found]  # noqa: F401 - it must fail
