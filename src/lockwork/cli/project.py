"""The project of a framework that runs the commands: its app and server replace the defaults of the options."""

from __future__ import annotations

from typing import Any

import click
from msgspec import Struct


class Project(Struct, frozen=True):
    """What `manage.py lockwork` knows of the commands' app."""

    name: str
    """The name of the program in usage texts."""
    restart: tuple[str, ...]
    """The command line that runs the same commands in a new process, without its words."""
    words: tuple[str, ...]
    app: str
    """The text `module:object`."""
    prefix: str
    url: str | None = None
    client: object = None
    """A redis-py client, instead of a URL."""

    @classmethod
    def current(cls) -> Project | None:
        """Return the project of the running command; None for `lockwork`."""
        context = click.get_current_context(silent=True)
        return None if context is None else _project(context)


def server(url: str | None) -> tuple[str | None, object]:
    """Return the URL and the client of the server: that of --url, else the project's."""
    project = Project.current()
    return (url, None) if url is not None or project is None else (project.url, project.client)


class ServerOption(click.Option):
    """--url; a project's server takes precedence over LOCKWORK_URL, as for the app itself."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        project = _project(ctx)
        if project is not None and (project.url is not None or project.client is not None):
            return None
        return super().resolve_envvar_value(ctx)


class PrefixOption(click.Option):
    """--prefix; its default is the project's prefix."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return super().resolve_envvar_value(ctx) if _project(ctx) is None else None

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:
        project = _project(ctx)
        return super().get_default(ctx, call) if project is None else project.prefix


def _project(context: click.Context) -> Project | None:
    return context.find_object(Project)
