"""A function that tells how often it was called."""

from __future__ import annotations

from typing import Any


class Counted:
    """A function that counts its calls."""

    def __init__(self, result: object = "made") -> None:
        self.calls = 0
        self.result = result

    def __call__(self, *args: object) -> Any:
        self.calls += 1
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result
