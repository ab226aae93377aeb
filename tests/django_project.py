"""A Django project, run in separate processes: Django allows one settings module per process."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from lockwork import Lockwork
from processes import Started, started

START = 100.0
"""Seconds until a worker must be ready: each of its processes imports Django."""
PROJECT = Path(__file__).parent / "contrib" / "django" / "project"


class DjangoProject:
    """The project, its data and its processes; the tests enqueue by the names of its tasks."""

    lw: Lockwork

    def __init__(self, data: Path, url: str, patch: pytest.MonkeyPatch) -> None:
        self.data = data
        self.url = url
        self._patch = patch
        self.configure({})
        patch.setenv("PROJECT_DATA", str(data))
        for name in ("default", "archive"):
            with closing(self._database(name)) as database:
                database.execute(
                    "CREATE TABLE orders_order (id integer PRIMARY KEY AUTOINCREMENT, state text NOT NULL)"
                )

    def configure(self, settings: dict[str, Any], **environment: str) -> None:
        """Set settings and variables for the processes that start after this."""
        self._patch.setenv("PROJECT_SETTINGS", json.dumps(settings))
        for name, value in environment.items():
            self._patch.setenv(name, value)

    def _database(self, name: str = "default") -> sqlite3.Connection:
        return sqlite3.connect(self.data / f"{name}.sqlite3", isolation_level=None)

    def insert(self) -> int:
        """Insert an order, and return its id."""
        database = self._database()
        try:
            number = database.execute("INSERT INTO orders_order (state) VALUES ('new')").lastrowid
        finally:
            database.close()
        assert number is not None
        return number

    def state(self, order: int) -> str:
        """Return the state of an order."""
        database = self._database()
        try:
            return str(database.execute("SELECT state FROM orders_order WHERE id = ?", [order]).fetchone()[0])
        finally:
            database.close()

    def task(self, name: str, *parameters: str) -> Any:
        """Return a task of the project without its code."""
        code = f"def {name}({', '.join(parameters)}): ..."
        names: dict[str, Any] = {}
        exec(code, names)
        return self.lw.task(names[name])

    def manage(self, *words: str, folder: Path = PROJECT, url: str | None = "") -> AbstractContextManager[Started]:
        """Start `manage.py` with these words."""
        command = [sys.executable, str(PROJECT / "manage.py"), *words]
        return started(command, folder=folder, url=self.url if url == "" else url)

    def output(self, *words: str, status: int = 0, **options: Any) -> str:
        """Run `manage.py`, and return its output."""
        with self.manage(*words, **options) as process:
            assert process.process.stdout is not None
            text = process.process.stdout.read().decode()
            assert process.wait(START) == status, process.errors
            return text + process.errors
