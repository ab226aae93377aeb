"""A module that imports a missing module."""

from __future__ import annotations

import a_module_that_is_not_installed  # type: ignore[import-not-found]  # noqa: F401 - it must fail
