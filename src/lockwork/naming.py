"""Names built from a function's arguments: `"order:{order_id}"`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from string import Formatter
from typing import Any

from lockwork.errors import ConfigError
from lockwork.protocol.keys import checked


class Template:
    """A name with placeholders, which `str.format` fills from the arguments of a call."""

    def __init__(self, text: str, what: str) -> None:
        self.text: str = text
        self._what = what
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise ConfigError(f"{what} has unbalanced braces, so it is not a valid name: {text!r}") from error
        fields = [field for _, field, _, _ in parts if field is not None]
        self._fields = [field.partition(".")[0].partition("[")[0] for field in fields]
        if not all(field.isidentifier() for field in self._fields):
            raise ConfigError(f"{what} must name parameters in its braces, as in 'order:{{order_id}}', not {text!r}")

    def unfilled(self) -> ConfigError:
        """The error for using the name as it is."""
        return ConfigError(
            f"{self._what} must be 1 to 200 characters without braces, unless it decorates a function whose parameters "
            f"fill them, not {self.text!r}"
        )

    def bind(self, function: Callable[..., Any], without: Collection[str] = ()) -> Callable[..., str]:
        """Return what makes the name for a call of `function`, which gives no arguments for `without`.

        Raises ConfigError for a parameter that it does not have.
        """
        signature = inspect.signature(function)
        known = [parameter for parameter in signature.parameters.values() if parameter.name not in without]
        signature = signature.replace(parameters=known)
        for field in self._fields:
            if field not in signature.parameters:
                close = get_close_matches(field, signature.parameters, 1)
                hint = (
                    f"did you mean {{{close[0]}}}?" if close else f"it has {', '.join(signature.parameters) or 'none'}"
                )
                raise ConfigError(
                    f"{self._what} {self.text!r} names a parameter that the function does not have: {hint}"
                )

        def name(*args: Any, **kwargs: Any) -> str:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            try:
                text = self.text.format(**bound.arguments)
            except ConfigError:
                raise
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise ConfigError(
                    f"{self._what} cannot be built from {self.text!r} and these arguments: "
                    f"{type(error).__name__}: {error}"
                ) from None
            return checked(text, self._what)

        return name


def template(name: object, what: str) -> Template | None:
    """Return the template that `name` is, or None for a name without braces."""
    return Template(name, what) if isinstance(name, str) and ("{" in name or "}" in name) else None
