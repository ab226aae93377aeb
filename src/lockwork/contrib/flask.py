"""Flask: the app context around each job, and `flask lockwork`.

Needs lockwork[flask]. See docs/flask.md.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import click
from flask import Flask
from flask.cli import NoAppException, ScriptInfo

from lockwork.app.lockwork import Lockwork
from lockwork.cli import main
from lockwork.cli.project import Project
from lockwork.errors import ConfigError

if TYPE_CHECKING:
    lw: Lockwork
    """The Lockwork object of the app that FLASK_APP names, for worker processes."""

__all__ = ["init_app", "lw"]

_EXTENSION = "lockwork"
_APP = "lockwork.contrib.flask:lw"
_FLASK_APP = "FLASK_APP"


def init_app(app: Flask, lw: Lockwork) -> None:
    """Run each job of `lw` in a context of `app`, and add the command `flask lockwork`.

    Each call of a job, hook, provider or lifespan has a context of its own, which ends with the functions of
    `teardown_appcontext`. If several apps have the same Lockwork object, as in tests, jobs get the last one.

    Args:
        app: the Flask app.
        lw: its Lockwork object, later also `app.extensions["lockwork"]`.

    Raises ConfigError if the app has a Lockwork object already.
    """
    if not isinstance(lw, Lockwork):
        raise ConfigError(f"init_app takes the Flask app and a Lockwork object, not {lw!r:.60}")
    if _EXTENSION in app.extensions:
        raise ConfigError(f"app {app.name!r} has a Lockwork object already: call init_app once for an app")
    app.extensions[_EXTENSION] = lw
    reference = _contexts.get(lw)
    contexts = None if reference is None else reference()
    if contexts is None:
        contexts = FlaskContexts(app)
        _contexts[lw] = weakref.ref(contexts)
        lw.registry.context.call_contexts.add(contexts.in_thread, contexts.on_loop)
    contexts.app = app
    app.cli.add_command(FlaskCommand(lw))


class FlaskContexts:
    """Enters a context of a Flask app around each call of a worker."""

    def __init__(self, app: Flask) -> None:
        self.app = app

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Surround a call in a thread."""
        with self.app.app_context():
            yield

    @asynccontextmanager
    async def on_loop(self) -> AsyncIterator[None]:
        """Surround a call on the event loop."""
        with self.app.app_context():
            yield


_contexts: weakref.WeakKeyDictionary[Lockwork, weakref.ref[FlaskContexts]] = weakref.WeakKeyDictionary()
"""The contexts of each Lockwork object, which refers to them."""
_loaded: list[Lockwork] = []
"""The Lockwork object of this process, when a command or `lw` has loaded the Flask app."""


class FlaskCommand(click.Command):
    """`flask lockwork`: passes all words to the `lockwork` command, with the server and prefix of the app."""

    def __init__(self, lw: Lockwork) -> None:
        text = "Distributed locks and work queues: workers, jobs, queues, dashboard."
        super().__init__(_EXTENSION, help=text, add_help_option=False)
        self._lw = lw

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words as they are, also `--`."""
        ctx.args = list(args)
        return []

    def invoke(self, ctx: click.Context) -> None:
        """Run the command."""
        script = ctx.find_object(ScriptInfo)
        _loaded[:] = [self._lw]
        if script is not None and (path := _import_path(script)):
            os.environ[_FLASK_APP] = path  # for the processes of a worker
        words = tuple(ctx.args)
        restart = (sys.executable, "-m", "flask", _EXTENSION)
        url, client = self._lw.server_arguments
        main(words, Project("flask lockwork", restart, words, _APP, self._lw.config.prefix, url, client))


def __getattr__(name: str) -> Any:
    if name != "lw":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not _loaded:
        _loaded.append(_load())
    return _loaded[0]


def _load() -> Lockwork:
    """Load the Flask app as the command `flask` does, and return its Lockwork object; raises ConfigError."""
    try:
        app = ScriptInfo(os.environ.get(_FLASK_APP)).load_app()
    except NoAppException as error:
        raise ConfigError(f"the Flask app cannot be loaded: {error.message}") from error
    lw = app.extensions.get(_EXTENSION)
    if not isinstance(lw, Lockwork):
        raise ConfigError(f"app {app.name!r} has no Lockwork object: call lockwork.contrib.flask.init_app(app, lw)")
    return lw


def _import_path(script: ScriptInfo) -> str | None:
    """Return FLASK_APP for new processes: that of --app, or the factory of a program with its own `FlaskGroup`."""
    factory: Callable[..., Flask] | None = script.create_app
    if factory is None:
        return script.app_import_path
    name = getattr(factory, "__qualname__", "")
    return f"{factory.__module__}:{name}" if name.isidentifier() else None
