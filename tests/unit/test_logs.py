"""Loggers of the package: configured like any other, and no call raises."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from lockwork.logs import Log

NAME = "lockwork.test"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The logger as the app sees it."""
    logger = logging.getLogger(NAME)
    yield logger
    logger.handlers.clear()
    logger.filters.clear()
    logger.setLevel(logging.NOTSET)


class Fails(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise ConnectionError("where logs are sent is away")


def test_log_records_name_their_logger_and_source_line(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(NAME)
    log.warning("%d jobs of %s", 3, "mail")
    try:
        raise ValueError("a fault")
    except ValueError:
        log.exception("it failed")
    for record in caplog.records:
        assert (record.name, record.pathname, record.funcName) == (
            NAME, __file__, "test_log_records_name_their_logger_and_source_line",
        )  # fmt: skip
    assert [record.getMessage() for record in caplog.records] == ["3 jobs of mail", "it failed"]
    assert caplog.records[1].lineno - caplog.records[0].lineno == 4
    assert "ValueError: a fault" in caplog.text


def test_app_sets_the_log_level(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    log = Log(NAME)
    logger.setLevel(logging.ERROR)
    log.warning("below its level")
    log.error("above")
    logger.addFilter(lambda record: "secret" not in record.getMessage())
    log.error("a secret")
    assert [record.getMessage() for record in caplog.records] == ["above"]


def test_failing_handler_is_reported(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logger.addHandler(Fails())
    Log(NAME).error("message")
    assert "ConnectionError: where logs are sent is away" in capsys.readouterr().err


def test_failing_filter_is_reported(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logger.addFilter(lambda record: bool(record.args["queue"]))  # type: ignore[call-overload, index]
    Log(NAME).error("message about %s", "mail")
    assert "TypeError" in capsys.readouterr().err


@pytest.mark.parametrize("there", [True, False])
def test_there_need_be_no_standard_error(logger: logging.Logger, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    closed = io.StringIO()
    closed.close()
    logger.addHandler(logging.StreamHandler(closed))
    monkeypatch.setattr(sys, "stderr", closed if there else None)
    Log(NAME).error("message")
