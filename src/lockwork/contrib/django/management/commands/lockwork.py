"""`manage.py lockwork`: the `lockwork` command with the server, prefix and app of the project."""

from __future__ import annotations

import os
import sys
import sysconfig
from argparse import REMAINDER
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from django.core.management.base import BaseCommand, CommandError, CommandParser, SystemCheckError

from lockwork.cli import main
from lockwork.cli.project import Project
from lockwork.contrib.django.app import APP
from lockwork.contrib.django.settings import ProjectSettings
from lockwork.errors import LockworkError

_WITH_VALUE = ("--settings", "--pythonpath")


class LockworkCommand(BaseCommand):
    """Passes all words to the `lockwork` command, except Django's own options."""

    help = "Distributed locks and work queues: workers, jobs, queues, dashboard."
    requires_system_checks: list[str] | tuple[str, ...] | Literal["__all__"] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command; Django has applied --settings and --pythonpath already."""
        words, skip_checks = own_words(argv[2:])
        if words[:1] == ["worker"] and not skip_checks and not {"--help", "-h"} & {*words}:
            try:
                self.check()
            except SystemCheckError as error:
                self.stderr.write(str(error), lambda text: text)
                sys.exit(error.returncode)
        _keep_path()
        self._run(words)

    def print_help(self, prog_name: str, subcommand: str) -> None:  # noqa: ARG002 - Django's signature
        """Print the help of `lockwork`."""
        self._run(["--help"])

    def add_arguments(self, parser: CommandParser) -> None:
        """For `call_command`."""
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *args: Any, words: Sequence[str], **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Run the command for `call_command`, which raises CommandError if it fails."""
        try:
            self._run(list(words))
        except SystemExit as exit:
            if exit.code:
                status = exit.code if isinstance(exit.code, int) else 1
                raise CommandError(
                    f"lockwork {' '.join(words)} failed with status {status}", returncode=status
                ) from None

    def _run(self, words: list[str]) -> None:
        try:
            settings = ProjectSettings.read()
        except LockworkError as error:
            self.stderr.write(f"lockwork: {error}")
            sys.exit(1)
        # the environment names the settings, and a new process imports the project as this one does
        restart = (sys.executable, "-m", "django", "lockwork", "--skip-checks")
        main(
            words,
            Project("manage.py lockwork", restart, tuple(words), APP, settings.prefix, settings.url, settings.client),
        )


Command = LockworkCommand


def own_words(words: Sequence[str]) -> tuple[list[str], bool]:
    """Return the words without Django's options, as far as "--", and True if one of them is --skip-checks."""
    end = words.index("--") if "--" in words else len(words)
    own: list[str] = []
    skip_checks = value_follows = False
    for word in words[:end]:
        if value_follows:
            value_follows = False
        elif word in _WITH_VALUE:
            value_follows = True
        elif word == "--skip-checks":
            skip_checks = True
        elif not word.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            own.append(word)
    return [*own, *words[end:]], skip_checks


def _keep_path() -> None:
    """Let worker processes import the project: they start in the current folder, not in that of manage.py."""
    paths = sysconfig.get_paths()
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    own = takewhile(lambda path: path != paths["stdlib"] and Path(path).name != archive, sys.path)
    folders = [str(Path(path).resolve()) for path in own]
    if any(folder != str(Path.cwd()) for folder in folders):
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))
