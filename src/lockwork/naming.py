"""Names that users give, and names built from a function's arguments: `"order:{order_id}"`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection
from string import Formatter
from typing import Any

from lockwork.errors import ConfigError
from lockwork.protocol.names import checked_name
from lockwork.suggestions import closest

_log = logging.getLogger("lockwork")
_MOST_WARNED = 100
_warned: set[str] = set()


class Template:
    """A name with placeholders, which `str.format` fills from the arguments of a call.

    `{{` and `}}` are braces of the name. Raises ConfigError for text that is no template.
    """

    def __init__(self, text: str, what: str) -> None:
        self.text: str = text
        self._what = what
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise ConfigError(
                f"{what} has unbalanced braces: {text!r}; write {{{{ and }}}} for braces that are no placeholders"
            ) from error
        fields = [field for _, field, _, _ in parts if field is not None]
        self._fields = [field.partition(".")[0].partition("[")[0] for field in fields]
        if not all(field.isidentifier() for field in self._fields):
            raise ConfigError(
                f"{what} must name parameters in its braces, as in 'order:{{order_id}}', not {text!r}; write {{{{ and "
                "}} for braces that are no placeholders"
            )

    @property
    def has_placeholders(self) -> bool:
        """True if the name depends on the arguments of a call."""
        return bool(self._fields)

    def bind(self, function: Callable[..., Any], without: Collection[str] = ()) -> Callable[..., str]:
        """Return a function that takes the arguments of a call of `function`, except `without`, and returns the name.

        Raises ConfigError if a placeholder names no parameter of the function, or one of `without`.
        """
        signature = inspect.signature(function)
        parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in without]
        signature = signature.replace(parameters=parameters)
        for field in self._fields:
            if field not in signature.parameters:
                close = closest(field, signature.parameters)
                hint = f"did you mean {{{close}}}?" if close else f"it has {', '.join(signature.parameters) or 'none'}"
                raise ConfigError(
                    f"{self._what} {self.text!r} names a parameter that the function does not have: {hint}"
                )

        def name(*args: Any, **kwargs: Any) -> str:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            try:
                return self.text.format(**bound.arguments)
            except ConfigError:
                raise
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise ConfigError(
                    f"{self._what} cannot be built from {self.text!r} and these arguments: "
                    f"{type(error).__name__}: {error}"
                ) from None

        return name


def template(name: object, what: str) -> Template | None:
    """Parse a name as a template; None for a name without braces."""
    return Template(name, what) if isinstance(name, str) and has_braces(name) else None


def has_braces(name: str) -> bool:
    """Return True if a name could be a template."""
    return "{" in name or "}" in name


def literal(name: object, what: str) -> str:
    """Check a name without placeholders, with a warning if it looks like a template.

    Raises ConfigError if it is not text.
    """
    text = checked_name(name, what)
    if has_braces(text):
        warn_of_template(text, what)
    return text


def warn_of_template(name: str, what: str) -> None:
    """Log a warning, once, if a name that is used literally looks like a template: an `f` may be missing before it.

    Braces in users' data are part of a name like any other character.
    """
    if name in _warned or len(_warned) == _MOST_WARNED:
        return
    try:
        pattern = Template(name, what)
    except ConfigError:
        return
    if pattern.has_placeholders:
        _warned.add(name)
        _log.warning(
            "%s is used as it is, with its braces: %r. Only names of decorators are filled from arguments; if the "
            "braces are placeholders, make it an f-string.",
            what[0].upper() + what[1:],
            name,
        )
