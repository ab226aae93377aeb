"""Reads a page of the documentation, and runs its code from top to bottom in one namespace."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zygote

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/]+\.py)\n")
_HEAD = re.compile(r"^\| (?:there|原来) \| (?:here|这里) \| (?:gives|结果) \| (?:note|说明)? *\|$")
_PLACEHOLDER = re.compile(r"{(\w+)}")
_PATIENCE = 120


@dataclass(frozen=True)
class Step:
    """A step of a page: a block of Python, or a cell of a table with its expected value.

    A cell that begins with @ decorates a function whose parameters are the names in its braces.
    """

    line: int
    code: str
    gives: str | None = None

    @property
    def file(self) -> str | None:
        """The module that this block is the text of, if it is one."""
        match = _FILE.match(self.code)
        return match[1] if match else None

    @property
    def command(self) -> bool:
        """Return True for a shell command."""
        return self.code.startswith(("lockwork ", "timeout "))


def steps(page: Path) -> list[Step]:
    """Everything on the page that can be run, in order."""
    text = page.read_text()
    found = [
        Step(text.count("\n", 0, block.start()) + 1, block[2])
        for block in _BLOCK.finditer(text)
        if block[1] == "python"
    ]
    return sorted([*found, *_rows(text)], key=lambda step: step.line)


def _rows(text: str) -> Iterator[Step]:
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if _HEAD.match(line):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            _, _, here, gives, *_ = _cells(line)
            yield Step(number, _code(here), _code(gives) if gives else None)


def _cells(line: str) -> list[str]:
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
    if len(cells) != 6:
        raise ValueError(f"a row has four cells: {line}")
    return cells


def _code(cell: str) -> str:
    if not re.fullmatch(r"`[^`]+`", cell):
        raise ValueError(f"not code: {cell}")
    return cell[1:-1]


class Reader:
    """Runs steps; `folder` is where modules are written and commands run, `ready` says when a worker works."""

    def __init__(self, folder: Path, ready: Callable[[subprocess.Popen[bytes]], object]) -> None:
        self._folder = folder
        self._ready = ready
        self.names: dict[str, Any] = {}

    def run(self, step: Step) -> None:
        """Run the step; raise AssertionError if it fails or returns another value."""
        if step.file is not None:
            path = self._folder / step.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(step.code)
            importlib.invalidate_caches()
        elif step.command:
            assert step.gives is None, f"line {step.line}: a command gives nothing to compare"
            self._command(step)
        elif step.code.startswith("@"):
            assert step.gives is None, f"line {step.line}: a decorator gives nothing to compare"
            parameters = ", ".join(dict.fromkeys(_PLACEHOLDER.findall(step.code)))
            self._python(Step(step.line, f"{step.code}\ndef line_{step.line}({parameters}): ..."))
        else:
            got = self._python(step)
            if step.gives is not None:
                assert repr(got) == step.gives, f"line {step.line}: {step.code} gives {got!r}, not {step.gives}"

    def _python(self, step: Step) -> Any:
        """Run it, and return the value of its last expression."""
        tree = ast.parse(step.code)
        last = tree.body[-1]
        value = last.value if isinstance(last, ast.Expr) else None
        if value is not None:
            tree.body.pop()
        exec(compile(tree, f"line {step.line}", "exec"), self.names)
        return None if value is None else eval(compile(ast.Expression(value), f"line {step.line}", "eval"), self.names)

    def _command(self, step: Step) -> None:
        words = shlex.split(step.code)
        at = words.index("lockwork")
        words[at : at + 1] = [sys.executable, "-m", "lockwork"]
        long_running = at == 0 and "worker" in words and not {"--burst", "--once"} & set(words)
        with zygote.popen(
            words, env=os.environ, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            try:
                if long_running:
                    self._ready(process)
                    process.send_signal(signal.SIGTERM)
                _, errors = process.communicate(timeout=_PATIENCE)
            finally:
                if process.poll() is None:
                    os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == 0, f"line {step.line}: {step.code}: {errors.decode()}"
