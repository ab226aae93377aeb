"""Ctrl-C while Python still loads a command, and the modules that `--help` does not import."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import started

ENTRIES = {
    "module": ["-m", "lockwork"],
    "script": ["-c", "import sys; sys.argv[0] = 'lockwork'; from lockwork.cli import main; main()"],
}
COMMANDS = {"run": ["run", "--lock", "x", "--", "true"], "worker": ["worker", "a:b"], "locks": ["locks"]}


def slow(module: str, folder: Path) -> str:
    """Return a search path with a module that prints "loading", and then loads until its standard input ends."""
    # poll in short steps: a signal just before a blocking system call does not interrupt it
    waiting = "while not select.select([sys.stdin], [], [], 0.01)[0]:\n    pass\n"
    (folder / f"{module}.py").write_text(f"import select, sys\nprint('loading', flush=True)\n{waiting}")
    return f"PYTHONPATH={folder}"


@pytest.mark.parametrize("module", ["click", "hiredis", "msgspec"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_ctrl_c_while_it_loads(entry: str, command: str, module: str, tmp_path: Path) -> None:
    program = ["env", slow(module, tmp_path), sys.executable, *ENTRIES[entry], *COMMANDS[command]]
    with started(program, folder=tmp_path) as process:
        assert process.line() == "loading"
        process.send(signal.SIGINT)
        assert process.wait() == 130
        assert process.errors == ""


def test_ignored_ctrl_c_stays_ignored(tmp_path: Path) -> None:
    """A shell's background job ignores Ctrl-C."""
    inner = f"trap '' INT; exec env {slow('click', tmp_path)} {sys.executable} -m lockwork --help"
    with started(["sh", "-c", inner], folder=tmp_path) as process:
        assert process.line() == "loading"
        process.send(signal.SIGINT)
        assert process.process.stdin is not None
        process.process.stdin.close()
        assert process.wait() == 1, "it went on, and found that this is not the real one"


def test_help_imports_almost_no_modules() -> None:
    heavy = ("redis", "msgspec", "asyncio", "rich", "lockwork.app.lockwork", "lockwork.worker")
    asked = f"import atexit, sys\natexit.register(lambda: print([name for name in {heavy} if name in sys.modules]))\n"
    code = f"{asked}sys.argv = ['lockwork', '--help']\nfrom lockwork.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    assert all(command in done.stdout for command in COMMANDS)
