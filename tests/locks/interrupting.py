"""Raises, or calls, in this thread wherever Python may run a signal handler, one place after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_LOOPS = {number for name, number in dis.opmap.items() if name == "JUMP_BACKWARD"}
_RESUME = dis.opmap["RESUME"]


@contextmanager
def interrupted_at(
    place: int, files: tuple[str, ...], handler: Callable[[], object] | None = None
) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt at the given place in the files, counted from 0; yield a description of the place.

    With `handler`, call it instead. CPython checks for signals at the start of a function, when a generator resumes
    after `yield`, after a call into C, and at a loop's backward jump.
    """
    remaining = place
    where: list[str] = []

    def strike(frame: FrameType) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == -1:
            where.append(f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}, {frame.f_lasti}")
            if handler is None:
                raise KeyboardInterrupt
            handler()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.endswith(files):
            return
        code, at = frame.f_code.co_code, frame.f_lasti
        if event == "call" and code[at] == _RESUME and code[at + 1] & 3 > 1:
            return  # within `yield from` or `await`
        strike(frame)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.endswith(files):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] in _LOOPS:
            strike(frame)
        return trace

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        yield where
    finally:
        sys.setprofile(before[1])
        sys.settrace(before[0])
