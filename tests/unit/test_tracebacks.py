"""Tracebacks have a bounded length, and keep frames even with long error texts."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable

import pytest

from lockwork.failures import Errors, Failure
from lockwork.logs import Log
from lockwork.worker.environment import _Json, _Text

LONG = "x" * 5_000
HUGE = "y\n" * 150_000


def innermost(text: str) -> None:
    raise ValueError(text)


def outermost(text: str) -> None:
    innermost(text)


def with_cause(text: str) -> None:
    try:
        innermost(text)
    except ValueError as error:
        raise LookupError(text) from error


def with_group(text: str) -> None:
    errors = []
    for _ in range(3):
        try:
            innermost(text)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup(text, errors)


def with_notes(text: str) -> None:
    try:
        innermost("")
    except ValueError as error:
        error.add_note(text)
        raise


def recursive(text: str, depth: int = 150) -> None:
    return mutual(text, depth - 1) if depth else innermost(text)


def mutual(text: str, depth: int) -> None:
    recursive(text, depth)


def raised_by(function: Callable[[str], None], text: str) -> Exception:
    try:
        function(text)
    except Exception as error:  # noqa: BLE001 - of any kind
        return error
    raise AssertionError


@pytest.mark.parametrize("text", ["short", LONG, HUGE], ids=["short", "long", "huge"])
@pytest.mark.parametrize("function", [outermost, with_cause, with_group, with_notes, recursive])
def test_stored_traceback_keeps_the_first_and_last_frames(function: Callable[[str], None], text: str) -> None:
    trace = Failure.read(Errors().stored(raised_by(function, text))).traceback
    assert len(trace) < 4_200
    assert "in raised_by" in trace
    assert "in innermost" in trace
    assert trace.startswith(("Traceback (most recent call last):", "  + Exception Group Traceback"))


def test_traceback_says_what_it_omits() -> None:
    trace = Failure.read(Errors().stored(raised_by(outermost, LONG))).traceback
    assert "ValueError: xxx" in trace
    assert trace.endswith(" more characters\n")
    assert " lines omitted ..." not in trace
    assert " lines omitted ..." in Failure.read(Errors().stored(raised_by(recursive, "short"))).traceback


@pytest.mark.parametrize("formatter", [None, _Text(), _Json()], ids=["logging", "text", "json"])
@pytest.mark.parametrize("function", [outermost, with_cause, with_group, with_notes])
def test_log_bounds_the_text_of_an_error(
    formatter: logging.Formatter | None, function: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, stream = Log("lockwork.tests.tracebacks"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    monkeypatch.setattr(log.logger, "handlers", [handler])
    monkeypatch.setattr(log.logger, "propagate", False)
    log.error("it failed", exc_info=raised_by(function, HUGE))
    written = stream.getvalue()
    assert 1_000 < len(written) < 250_000
    assert "in innermost" in written
    if isinstance(formatter, _Text):
        assert all(line.startswith("  ") for line in written.splitlines()[1:])


def test_text_log_indents_what_another_handler_has_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    log, stream = Log("lockwork.tests.tracebacks"), io.StringIO()
    handlers = [logging.StreamHandler(io.StringIO()), logging.StreamHandler(stream)]
    handlers[1].setFormatter(_Text())
    monkeypatch.setattr(log.logger, "handlers", handlers)
    monkeypatch.setattr(log.logger, "propagate", False)
    log.error("it failed", exc_info=raised_by(outermost, "a\nb"))
    assert stream.getvalue().endswith("\n  ValueError: a\n  b\n")
