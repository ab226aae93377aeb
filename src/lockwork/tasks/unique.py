"""Unique tasks: the name of a call, the time that its job has the name, and the effect of another call with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from lockwork.codecs import revealing
from lockwork.durations import milliseconds
from lockwork.errors import ConfigError
from lockwork.hashes import blake2b
from lockwork.protocol.names import stored
from lockwork.protocol.queue.unique import Terms, Until
from lockwork.tasks.header_encoder import naming, text
from lockwork.validation import one_of

OnDuplicate = Literal["keep", "replace"]
_WHAT = "a job's unique name"
_NAMES = ("unique", "unique_until", "on_duplicate", "debounce", "debounce_max")
_digested = msgspec.json.Encoder(order="sorted", enc_hook=revealing).encode


class Unique(Struct, frozen=True):
    """The options of a unique task, checked."""

    name: str | Literal[True]
    """May have placeholders for the call's arguments; True: made of all arguments."""
    terms: Terms
    debounce_ms: int
    given: Mapping[str, Any]
    """The options as the user gave them."""

    @classmethod
    def read(cls, given: Mapping[str, Any], known: Unique | None = None) -> Unique | None:
        """Check the options, and add them to the `known` ones; None if the task is not unique. Raises ConfigError."""
        changes = {name: given[name] for name in _NAMES if name in given}
        if not changes:
            return known
        others = [name for name in changes if name != "unique"]
        if known is not None:
            changes = {**known.given, **changes}
        name = changes.get("unique")
        if name is None or name is False:
            if others:
                raise ConfigError(
                    f"{others[0]} is an option of unique jobs: set unique=True or unique='name:{{argument}}', too"
                )
            return None
        debounce, longest = _debounce(changes)
        terms = Terms(_until(changes, debounce), _meaning(changes, debounce), longest)
        return cls(name if name is True else text(name, _WHAT), terms, debounce, changes)

    def described(self) -> dict[str, Any]:
        """Return the options as an announcement has them; `read` reads them again."""
        terms, until = self.terms, self.terms.until
        options: dict[str, Any] = {
            "unique": self.name,
            "unique_until": f"{until}ms" if isinstance(until, int) else until,
        }
        if terms.meaning == "replace":
            options["on_duplicate"] = "replace"
        if self.debounce_ms:
            options["debounce"] = f"{self.debounce_ms}ms"
        if terms.longest_ms:
            options["debounce_max"] = f"{terms.longest_ms}ms"
        return options

    def marking(self, task: str, function: Callable[..., Any], without: frozenset[str]) -> Callable[..., str]:
        """Return a function that makes the unique part of a record's header; `without`: parameters that no call has.

        Raises ConfigError if the task cannot be unique.
        """
        mark = self.terms.mark(f"{stored(task).replace('/', '%2F')}/")
        if self.name is not True:
            named = naming(self.name, _WHAT, function, without)
            return lambda *args, **kwargs: mark + named(*args, **kwargs)
        whole = inspect.signature(function)
        given = [parameter for name, parameter in whole.parameters.items() if name not in without]
        signature = whole.replace(parameters=given)

        def digest(*args: Any, **kwargs: Any) -> str:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            try:
                encoded = _digested(bound.arguments)
            except Exception as error:  # noqa: BLE001 - the arguments' classes may raise anything
                raise ConfigError(f"the arguments of task {task!r} cannot be sent as JSON: {error}") from None
            return mark + blake2b(encoded, digest_size=16).hexdigest()

        return digest


def _debounce(given: Mapping[str, Any]) -> tuple[int, int]:
    wait, longest = given.get("debounce"), given.get("debounce_max")
    if wait is None:
        if longest is not None:
            raise ConfigError("debounce_max is a limit of debounce, so it needs debounce=...")
        return 0, 0
    pause = milliseconds(wait, "debounce")
    most = 0 if longest is None else milliseconds(longest, "debounce_max")
    if most and most < pause:
        raise ConfigError(f"debounce_max must not be less than debounce, which is {wait!r}, not {longest!r}")
    return pause, most


def _meaning(given: Mapping[str, Any], debounce: int) -> Literal["keep", "replace", "debounce"]:
    choice = given.get("on_duplicate")
    if choice == "debounce":
        raise ConfigError("to wait until the calls stop, set debounce='2s' instead of on_duplicate='debounce'")
    if choice is not None:
        one_of(choice, "on_duplicate", ("keep", "replace"))
    if debounce and choice == "keep":
        raise ConfigError("a debounced job always becomes the last call: it cannot have on_duplicate='keep'")
    return "debounce" if debounce else "replace" if choice == "replace" else "keep"


def _until(given: Mapping[str, Any], debounce: int) -> Until | int:
    choice = given.get("unique_until")
    if choice is None:
        # a call must not be lost because the job runs already
        return "start" if debounce or given.get("on_duplicate") == "replace" else "done"
    if choice in ("start", "done"):
        until: Until = choice
        return until
    try:
        time = milliseconds(choice, "unique_until")
    except ConfigError:
        raise ConfigError(f"unique_until is 'start', 'done' or a time such as '10m', not {choice!r}") from None
    if debounce:
        raise ConfigError("a debounced job's unique_until is 'start' or 'done', not a time")
    return time
