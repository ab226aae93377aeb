"""Imports the Lockwork object that `module:object` names, and the modules `tasks` of packages."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from lockwork.app.lockwork import Lockwork
from lockwork.errors import ConfigError, LockworkError
from lockwork.failures import is_own
from lockwork.logs import Log
from lockwork.suggestions import closest

log: Log = Log("lockwork.worker")

_USUAL = "lw"
"""The usual name of an app's object."""
_TASKS = "tasks"
"""The name of the modules that `--discover` imports."""
_OURS = f"{Path(__file__).parents[1]}/"
_APP = re.compile(r"^(\w+)(?:\s*:[^=\n]+)?\s*=\s*(?:\w+\.)?Lockwork\(", re.MULTILINE)
_IMPORTING = f"{Path(importlib.__file__).parent}/"


_FRAMEWORKS = {"DJANGO_SETTINGS_MODULE": "lockwork.contrib.django:lw"}
"""The app of a framework's project, by the environment variable that names the project's settings."""


def named_by_environment() -> str | None:
    """Return the app of the framework whose settings the environment names."""
    return next((app for name, app in _FRAMEWORKS.items() if os.environ.get(name)), None)


class NotImported(ConfigError):
    """The app's module cannot be imported. A note holds the traceback if it adds to the message."""


def load(reference: str, discover: Iterable[str] = ()) -> Lockwork:
    """Return the object that `find` finds."""
    return find(reference, discover)[1]


def find(reference: str, discover: Iterable[str] = ()) -> tuple[str, Lockwork]:
    """Import the app, with the current directory first on the path; return `module:object` and the object.

    Without `:object`, it is `lw`, or the only Lockwork object of the module.

    Args:
        reference: `module:object`, or a module.
        discover: packages whose modules `tasks` to import, too.

    Raises ConfigError.
    """
    module_name, separator, attribute = reference.partition(":")
    if not module_name or (separator and not attribute):
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
            hint = _similar(module_name, attribute)
            raise ConfigError(f"there is no module {module_name!r} in {here} or on the Python path{hint}") from None
        raise _not_imported(module_name, error) from error
    except (Exception, SystemExit) as error:
        raise _not_imported(module_name, error) from error
    apps = {name: value for name, value in vars(module).items() if isinstance(value, Lockwork)}
    attribute = attribute or _only_app(module, apps)
    hint = f"; the module has {module_name}:{next(iter(apps))}" if apps else ""
    value = _attribute(module, attribute, hint)
    reference = f"{module_name}:{attribute}"
    if not isinstance(value, Lockwork):
        raise ConfigError(f"{reference} is a {type(value).__name__}, not a Lockwork object{hint}")
    value.registry.context.announcing.stop()  # a supervisor announces the app itself
    for package in discover:
        _import_tasks(package, reference, value)
    return reference, value


def _only_app(module: ModuleType, apps: Mapping[str, Lockwork]) -> str:
    """Return the name of the module's object: `lw`, or the only one. Raises ConfigError."""
    if _USUAL in apps or (not apps and hasattr(module, "__getattr__")):  # it may create its app at the first access
        return _USUAL
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps))
    name = module.__name__
    if apps:
        some = ", ".join(sorted(apps))
        raise ConfigError(
            f"module {name!r} has several Lockwork objects, {some}: write {name}:{min(apps)}, for instance"
        )
    close = next((f": did you mean {each}?" for each in _apps_near(module)), f": add {_USUAL} = Lockwork() to it")
    raise ConfigError(f"module {name!r} has no Lockwork object{close}")


def _apps_near(module: ModuleType) -> Iterator[str]:
    """Yield `module:object` of the other modules of a package, or of its folder, without importing them."""
    name, file = module.__name__, getattr(module, "__file__", None)
    parent = name if hasattr(module, "__path__") else name.rpartition(".")[0]
    folders = [Path(path) for path in getattr(module, "__path__", ())] or ([Path(file).parent] if file else [])
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            for app in _apps_in(path) if path.stem != "__init__" else ():
                yield f"{parent}.{path.stem}:{app}" if parent else f"{path.stem}:{app}"


def _import_tasks(package: str, reference: str, app: Lockwork) -> None:
    """Import each module `tasks` in a package; warn if it uses another Lockwork object. Raises ConfigError."""
    names = list(_task_modules(package))
    if not names:
        raise ConfigError(f"--discover {package}: package {package!r} has no module named {_TASKS!r}")
    for name in names:
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:
            raise _not_imported(name, error) from error
        others = [each for each, value in vars(module).items() if isinstance(value, Lockwork) and value is not app]
        if others:
            log.warning("--discover: %s:%s is not %s, whose tasks are used here", name, others[0], reference)


def _task_modules(package: str) -> Iterator[str]:
    """Yield the names of all modules `tasks` below a package, also of folders without `__init__.py`."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):
        spec = None  # a parent is missing, or is no package
    except (Exception, SystemExit) as error:
        raise _not_imported(package, error) from error
    if spec is None:
        raise ConfigError(f"--discover {package}: there is no package {package!r}{_similar(package, '')}")
    if spec.submodule_search_locations is None:
        raise ConfigError(f"--discover {package}: it is a module, not a package; import it in the app's module")
    for location in spec.submodule_search_locations:
        yield from _tasks_below(Path(location), package)


def _tasks_below(folder: Path, package: str) -> Iterator[str]:
    inner: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name == f"{_TASKS}.py" or (path.name == _TASKS and (path / "__init__.py").exists()):
            yield f"{package}.{_TASKS}"
        elif path.name.isidentifier() and path.name != "__pycache__" and path.is_dir() and not path.is_symlink():
            inner.append(path)
    for path in inner:
        yield from _tasks_below(path, f"{package}.{path.name}")


def _similar(module: str, attribute: str) -> str:
    """Return a hint: an existing module with a similar name."""
    dotted = _dotted(module)
    close = dotted if dotted != module else closest(dotted, _modules_here())
    names = [attribute] if attribute else (_apps_in_file(close) if close else [])
    return f": did you mean {':'.join([close, *names[:1]])}?" if close else ""


def _attribute(module: ModuleType, path: str, hint: str) -> object:
    """Return what the path names; a module may create its app at the first access. Raises ConfigError."""
    value: object = module
    for part in path.split("."):
        try:
            if not hasattr(value, part):
                raise ConfigError(f"module {module.__name__!r} has no {path!r}{hint}")
            value = getattr(value, part)
        except LockworkError:
            raise
        except (Exception, SystemExit) as error:
            raise _not_imported(module.__name__, error) from error
    return value


def _dotted(path: str) -> str:
    """Return the module name for a path that may be a file path."""
    return path.removesuffix(".py").replace("/", ".").strip(".")


def _modules_here() -> list[str]:
    return [path.stem for path in Path.cwd().glob("*.py")]


def _apps_in_file(module: str) -> list[str]:
    """Return the variables of a module's file that seem to be Lockwork objects, without importing it."""
    path = module.replace(".", "/")
    return _apps_in(Path(f"{path}.py")) or _apps_in(Path(f"{path}/__init__.py"))


def _apps_in(file: Path) -> list[str]:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return _APP.findall(file.read_text())
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
