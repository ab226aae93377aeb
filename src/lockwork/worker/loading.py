"""Imports the Lockwork object that `module:object` names."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import traceback
from pathlib import Path

from lockwork.app.lockwork import Lockwork
from lockwork.errors import ConfigError, LockworkError
from lockwork.failures import is_own
from lockwork.suggestions import closest

_OURS = f"{Path(__file__).parents[1]}/"
_APP = re.compile(r"^(\w+)(?:\s*:[^=\n]+)?\s*=\s*(?:\w+\.)?Lockwork\(", re.MULTILINE)
_IMPORTING = f"{Path(importlib.__file__).parent}/"


class NotImported(ConfigError):
    """The app's module cannot be imported. A note holds the traceback if it adds to the message."""


def load(reference: str) -> Lockwork:
    """Import the module, with the current directory first on the path, and return its object; raises ConfigError."""
    module_name, separator, attribute = reference.partition(":")
    if not separator or not module_name or not attribute:
        dotted = _dotted(module_name)
        names = _apps_in_file(dotted)
        hint = f": did you mean {dotted}:{names[0]}?" if names else ""
        raise ConfigError(f"the app must be module:object, such as shop.tasks:lw, not {reference!r}{hint}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        if module_name.startswith("."):  # a file path, or a relative module name
            raise ModuleNotFoundError(module_name, name=module_name)
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            dotted = _dotted(module_name)
            close = dotted if dotted != module_name else closest(dotted, _modules_here())
            hint = f": did you mean {close}:{attribute}?" if close else ""
            raise ConfigError(f"there is no module {module_name!r} in {here} or on the Python path{hint}") from None
        raise _not_imported(module_name, error) from error
    except (Exception, SystemExit) as error:
        raise _not_imported(module_name, error) from error
    apps = [name for name, value in vars(module).items() if isinstance(value, Lockwork)]
    hint = f"; the module has {module_name}:{apps[0]}" if apps else ""
    value = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise ConfigError(f"module {module_name!r} has no {attribute!r}{hint}")
        value = getattr(value, part)
    if not isinstance(value, Lockwork):
        raise ConfigError(f"{reference} is a {type(value).__name__}, not a Lockwork object{hint}")
    value.registry.context.announcing.stop()  # a supervisor announces the app itself
    return value


def _dotted(path: str) -> str:
    """Return the module name for a path that may be a file path."""
    return path.removesuffix(".py").replace("/", ".").strip(".")


def _modules_here() -> list[str]:
    return [path.stem for path in Path.cwd().glob("*.py")]


def _apps_in_file(module: str) -> list[str]:
    """Return the variables of a module's file that seem to be Lockwork objects, without importing it."""
    path = module.replace(".", "/")
    for file in (f"{path}.py", f"{path}/__init__.py"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return _APP.findall(Path(file).read_text())
    return []


def _not_imported(module: str, error: BaseException) -> NotImported:
    """Return an error that names the last line of the app's own code, with the traceback if other lines took part."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, _IMPORTING, "<frozen importlib"))
    ]
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        message = f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    elif frames:
        own = [frame for frame in frames if is_own(frame.filename)]
        place = (own or frames)[-1]
        message += f" ({place.filename}, line {place.lineno})"
    not_imported = NotImported(f"module {module!r} cannot be imported: {message}")
    if isinstance(error, SyntaxError) or (len(frames) > 1 and not isinstance(error, LockworkError)):
        excerpt = traceback.TracebackException.from_exception(error)
        excerpt.stack = traceback.StackSummary.from_list(frames)
        not_imported.add_note("".join(excerpt.format() if frames else excerpt.format_exception_only()).rstrip())
    return not_imported
