"""Finding the Lockwork object that `module:object` names."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from lockwork.app import Lockwork
from lockwork.errors import ConfigError


def load(reference: str) -> Lockwork:
    """Import the module, with the current directory first on the path, and return its object; raises ConfigError."""
    module_name, separator, attribute = reference.partition(":")
    if not separator or not module_name or not attribute:
        raise ConfigError(f"the app is named as module:object, for instance shop.tasks:lw, not {reference!r}")
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
        raise ConfigError(f"module {module_name!r} cannot be imported: {_where(error)}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"module {module_name!r} cannot be imported: {_where(error)}") from error
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            apps = [name for name, value in vars(module).items() if isinstance(value, Lockwork)]
            hint = f"; it has {module_name}:{apps[0]}" if apps else ""
            raise ConfigError(f"module {module_name!r} has no {attribute!r}{hint}")
        found = getattr(found, part)
    if not isinstance(found, Lockwork):
        raise ConfigError(f"{reference} is a {type(found).__name__}, not a Lockwork object")
    return found


def _where(error: BaseException) -> str:
    ours = f"{Path(__file__).parents[1]}/"  # what we raise of an app is told where the app said it
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
