"""Imports the Lockwork object that `module:object` names."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from lockwork.app.lockwork import Lockwork
from lockwork.errors import ConfigError, LockworkError
from lockwork.failures import is_own

_OURS = f"{Path(__file__).parents[1]}/"
_IMPORTING = f"{Path(importlib.__file__).parent}/"


class NotImported(ConfigError):
    """The app's module cannot be imported; if the traceback says more than the message, it is a note of this error."""


def load(reference: str) -> Lockwork:
    """Import the module, with the current directory first on the path, and return its object; raises ConfigError."""
    module_name, separator, attribute = reference.partition(":")
    if not separator or not module_name or not attribute:
        raise ConfigError(f"the app must be module:object, such as shop.tasks:lw, not {reference!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        if module_name.startswith("."):  # a path, or relative to nothing
            raise ModuleNotFoundError(module_name, name=module_name)
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            dotted = module_name.removesuffix(".py").replace("/", ".").strip(".")
            hint = f": did you mean {dotted}:{attribute}?" if dotted != module_name else ""
            raise ConfigError(f"there is no module {module_name!r} in {here} or on the Python path{hint}") from None
        raise _not_imported(module_name, error) from error
    except (Exception, SystemExit) as error:
        raise _not_imported(module_name, error) from error
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            apps = [name for name, value in vars(module).items() if isinstance(value, Lockwork)]
            hint = f"; it has {module_name}:{apps[0]}" if apps else ""
            raise ConfigError(f"module {module_name!r} has no {attribute!r}{hint}")
        found = getattr(found, part)
    if not isinstance(found, Lockwork):
        raise ConfigError(f"{reference} is a {type(found).__name__}, not a Lockwork object")
    found.registry.context.announcing.stop()  # a supervisor does so, with what else it says
    return found


def _not_imported(module: str, error: BaseException) -> NotImported:
    """Name the last line of the app's own code, and add the traceback where other lines had a part in it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, _IMPORTING, "<frozen importlib"))
    ]
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        said = f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    elif frames:
        own = [frame for frame in frames if is_own(frame.filename)]
        place = (own or frames)[-1]
        said += f" ({place.filename}, line {place.lineno})"
    found = NotImported(f"module {module!r} cannot be imported: {said}")
    if isinstance(error, SyntaxError) or (len(frames) > 1 and not isinstance(error, LockworkError)):
        shown = traceback.TracebackException.from_exception(error)
        shown.stack = traceback.StackSummary.from_list(frames)
        found.add_note("".join(shown.format() if frames else shown.format_exception_only()).rstrip())
    return found
