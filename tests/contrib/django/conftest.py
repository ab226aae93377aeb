"""A Django project on the server of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_project import DjangoProject
from lockwork import Lockwork


@pytest.fixture
def project(tmp_path: Path, url: str, lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> DjangoProject:
    """A project with a database of its own, on the run's server."""
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    made = DjangoProject(tmp_path, url, monkeypatch)
    made.lw = lw
    return made
