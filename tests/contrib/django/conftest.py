"""A Django project on the server of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

import zygote
from django_project import DjangoProject
from lockwork import Lockwork

_IMPORTS = """
django.core.handlers.wsgi
django.core.management.commands.shell
django.core.management.commands.test
django.db.backends.sqlite3.base
django.db.migrations
django.forms
django.shortcuts
django.template.backends.django
django.test
django.views.decorators.csrf
"""
"""Modules of Django that need no settings. Their import takes half of the CPU time of a project's process."""


@pytest.fixture(scope="session")
def forked_projects() -> None:
    """Start the processes of projects as copies of one process that has imported Django."""
    zygote.start(((zygote.IMPORTS, _IMPORTS),))


@pytest.fixture
def project(
    forked_projects: None, tmp_path: Path, url: str, lw: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> DjangoProject:
    """A project with a database of its own, on the run's server."""
    monkeypatch.setenv(zygote.IMPORTS, _IMPORTS)
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    made = DjangoProject(tmp_path, url, monkeypatch)
    made.lw = lw
    return made
