"""Bad input and a missing extra: one clear line, nothing started."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from click.testing import CliRunner

from lockwork.cli.commands import cli
from lockwork.errors import ConfigError
from lockwork.version import install_command
from play import main
from play.failure import DemoFailed
from play.signals import Signals


@pytest.mark.parametrize("option", ["--buyers", "--stock"])
@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_sale_needs_buyers_and_phones(option: str, value: str) -> None:
    done = CliRunner().invoke(cli, ["demo", option, value])
    assert done.exit_code == 2
    assert f"Error: Invalid value for '{option}'" in done.output


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"aiohttp", "uvicorn"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else ModuleSpec(name, None))
    with Signals() as signals, pytest.raises(DemoFailed) as raised:
        main.run(1, 1, 1, None, signals, as_object=False)
    assert str(raised.value) == f"the demo needs aiohttp and uvicorn: {install_command('demo')}"


def test_folder_without_a_shop_is_refused(tmp_path: Path) -> None:
    with Signals() as signals, pytest.raises(ConfigError, match=r"a shop is a folder with shop\.py, .* is not"):
        main.run(1, 1, 1, tmp_path, signals, as_object=False)


def test_command_loads_neither_the_demo_nor_its_extra() -> None:
    heavy = ("rich", "sqlite3", "aiohttp", "starlette", "uvicorn")
    code = f"import sys, lockwork.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
