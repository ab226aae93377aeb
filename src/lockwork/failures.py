"""Exceptions as data: an error is stored as text, and only registered classes are rebuilt from it."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from msgspec import Struct

from lockwork import codecs, type_hints
from lockwork.errors import ConfigError
from lockwork.introspection import same_place
from lockwork.protocol.queue.envelope import ENCRYPTED, shown_text
from lockwork.tracebacks import bounded
from lockwork.type_hints import Unread

_TYPE = 200
_MESSAGE = 1000
_TRACE = 4000
_KNOWN = 4000
"""Most bytes of a registered error's arguments and attributes; a larger one arrives as JobFailed."""

_OURS = f"{Path(__file__).parent}/"

_STEERING = {
    code: ascii(chr(code))[1:-1]
    for codes in (range(32), range(127, 160), (0x2028, 0x2029), range(0x202A, 0x202F), range(0x2066, 0x206A))
    for code in codes
}
"""Characters that end a line, control a terminal or reverse the text direction, and their escapes."""

ErrorClass = TypeVar("ErrorClass", bound=type[Exception])


class Failure(Struct, frozen=True):
    """A stored error: class name, text, traceback as text, and the fields of a registered class."""

    type: str
    text: str
    traceback: str
    known: dict[str, Any] | None = None

    @classmethod
    def read(cls, stored: bytes) -> Failure:
        """Read a stored error; never raises, even for unreadable data."""
        try:
            fields = codecs.decode(stored)
            known, text = fields.get("known"), shown_text(str(fields["message"]))
            return cls(
                str(fields["type"]),
                text,
                "" if text is ENCRYPTED else str(fields.get("traceback", "")),
                known if isinstance(known, dict) else None,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls("", stored.decode(errors="replace"), "")

    def __str__(self) -> str:
        return f"{self.type}: {self.text}" if self.type else self.text


class Errors:
    """The error classes of an app that callers receive as themselves."""

    def __init__(self) -> None:
        self._names: dict[type[BaseException], str] = {}
        self._classes: dict[str, type[Exception]] = {}

    def add(self, error: ErrorClass, name: str | None = None) -> ErrorClass:
        """Register a class; raises ConfigError for anything else, or if another class has its name."""
        if not isinstance(error, type) or not issubclass(error, Exception):
            raise ConfigError(f"only an Exception class can be registered as an error, not {error!r}")
        error_name = error.__name__ if name is None else name
        if not isinstance(error_name, str) or not 1 <= len(error_name) <= _TYPE:
            raise ConfigError(f"an error's name is text of 1 to {_TYPE} characters, not {error_name!r:.60}")
        namesake = self._classes.get(error_name)
        if namesake is not None and not same_place(error, namesake):
            raise ConfigError(
                f"error {error!r} has the name of {namesake!r}: register one of them with another name=..."
            )
        self._names[error] = error_name
        self._classes[error_name] = error
        return error

    def stored(self, error: BaseException) -> bytes:
        """Encode an error; never fails, even if the `__str__` of its class raises."""
        fields: dict[str, Any] = {
            "type": sendable(type(error).__name__[:_TYPE]),
            "message": text(error),
            "traceback": sendable(_trace(error)),
        }
        name = self._names.get(type(error))
        if name is not None:
            known = _taken_apart(name, error)
            if known is not None:
                fields["known"] = known
        return codecs.encode(fields, "an error", 1 << 20)

    def rebuilt(self, failure: Failure) -> Exception | None:
        """Rebuild the error if its class is registered here and the stored fields fit; else return None.

        Its `__init__` does not run: arguments and attributes are restored.
        """
        known = failure.known
        if known is None:
            return None
        name, args, state = known.get("name"), known.get("args"), known.get("state")
        error_class = self._classes.get(name) if isinstance(name, str) else None
        if error_class is None or not isinstance(args, list) or not isinstance(state, dict):
            return None
        try:
            error = error_class.__new__(error_class, *args)
            error.args = tuple(args)
            hints = _types(error_class)
            for attribute, value in state.items():
                if not attribute.startswith("__"):
                    error.__dict__[attribute] = codecs.convert(value, hints.get(attribute, Any))
            str(error)
        except Exception:  # noqa: BLE001 - the class has changed: the error arrives as data
            return None
        # if `__init__` computes the text, the rebuilt error has another text
        return error if text(error) == failure.text else None


def line(error: BaseException) -> str:
    """One line for the log."""
    return one_line(f"{type(error).__name__}: {text(error)}")


def one_line(given: str) -> str:
    """Escape control characters, so that an error cannot end the log line or forge another one."""
    return given.translate(_STEERING)


def text(error: BaseException) -> str:
    """The error's text, bounded."""
    try:
        return sendable(str(error)[:_MESSAGE])
    except BaseException as problem:  # noqa: BLE001 - `__str__` of the app's exception class may fail in any way
        return f"(no text: {type(problem).__name__})"


def sendable(given: str) -> str:
    """Text that JSON can hold."""
    return given.encode(errors="backslashreplace").decode()


def without_text(error: BaseException) -> BaseException:
    """Return an error with the same class name and traceback, but without its text, causes and attributes."""
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    stripped: Exception = type(kind.__name__, (Exception,), names)(ENCRYPTED)
    return stripped.with_traceback(error.__traceback__)


def exc_info(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """The `exc_info` of a log record; its traceback begins with the app's first frame, or is None."""
    return type(error), error, _first_of_app(error)


@cache
def _libraries() -> tuple[str, ...]:
    import sysconfig  # noqa: PLC0415 - it reads the settings of Python's build, which takes 10 ms

    return tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def is_own(file: str) -> bool:
    """Return True for a file of the app's own code, not of Lockwork, Python or an installed library."""
    return not file.startswith((_OURS, *_libraries(), "<"))


def own_frame(frames: Sequence[traceback.FrameSummary]) -> str:
    """Describe the innermost frame of the app's own code, or else of all code: file, line and function."""
    own = [frame for frame in frames if is_own(frame.filename)] or frames
    return f"{own[-1].filename}, line {own[-1].lineno}, in {own[-1].name}" if own else ""


def _first_of_app(error: BaseException) -> TracebackType | None:
    """Skip Lockwork's own frames at the beginning."""
    first = error.__traceback__
    while first is not None and first.tb_frame.f_globals.get("__name__", "").startswith("lockwork."):
        first = first.tb_next
    return first


def _trace(error: BaseException) -> str:
    first = _first_of_app(error) or error.__traceback__
    try:
        return bounded(error, first, text=_MESSAGE, total=_TRACE)
    except Exception:  # noqa: BLE001 - it reads attributes of the error, which may fail in any way; frames cannot
        return ("".join(traceback.format_tb(first)) + line(error))[-_TRACE:]


def _taken_apart(name: str, error: BaseException) -> dict[str, Any] | None:
    try:
        state = {key: value for key, value in vars(error).items() if not key.startswith("__")}
        hints = _types(type(error))
        if not all(_plain(value) for value in error.args):
            return None
        if not all(_plain(value) or key in hints for key, value in state.items()):
            return None
        state = {key: codecs.exact(value, "an error's attributes") for key, value in state.items()}
        known = {"name": name, "args": list(error.args), "state": state}
        encoded = codecs.encode(known, "an error's attributes", _KNOWN)
    except Exception:  # noqa: BLE001 - attributes that JSON cannot hold are left out
        return None
    plain_details: dict[str, Any] = json.loads(encoded)
    return plain_details


def _types(kind: type) -> dict[str, Any]:
    """Return the types of the annotated attributes that can be read."""
    hints = type_hints.of_class(kind)
    return {name: hint for name, hint in hints.items() if not isinstance(hint, Unread)}


def _plain(value: object) -> bool:
    if value is None or isinstance(value, bool | int | float | str):
        return type(value) in (type(None), bool, int, float, str)
    if type(value) is list:
        return all(map(_plain, value))
    if type(value) is dict:
        return all(type(key) is str and _plain(one) for key, one in value.items())
    return False
