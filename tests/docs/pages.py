"""Reads a page of the documentation: where its links lead, whether its code is code, and what commands it shows."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

from lockwork.cli.commands import cli

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def problems(page: Path) -> list[str]:
    """Return the problems of a page."""
    text = page.read_text()
    return [*_dead_links(page, text), *_bad_code(text), *_unknown_options(text)]


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield each linked file with the heading of the link, or an empty one."""
    for target in _LINK.findall(_FENCED.sub("", page.read_text())):
        if "://" not in target:
            place, _, heading = target.partition("#")
            yield (page.parent / place).resolve() if place else page.resolve(), heading


def _dead_links(page: Path, text: str) -> Iterator[str]:
    del text
    for file, heading in links(page):
        if not file.exists():
            yield f"no such file: {file}"
        elif heading and heading not in _headings(file):
            yield f"no such heading: {file.name}#{heading}"


def _headings(page: Path) -> set[str]:
    found = _HEADING.findall(_FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def _bad_code(text: str) -> Iterator[str]:
    for kind, code in _FENCED.findall(text):
        if kind != "python":
            continue
        try:
            tree = compile(code, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            yield f"no Python: {error}: {code[:60]!r}"
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lockwork":
                module = import_module(node.module or "")
                listed = getattr(module, "__all__", ())  # an app may be made at its first access, of other settings
                missing = (one.name for one in node.names if one.name not in listed and not hasattr(module, one.name))
                yield from (f"{node.module} has no {name}" for name in missing)


def _unknown_options(text: str) -> Iterator[str]:
    shown = [line[2:] for kind, code in _FENCED.findall(text) if kind == "console" for line in code.splitlines()]
    for line in (*shown, *_INLINE.findall(_FENCED.sub("", text))):
        if re.match(r"lockwork [a-z]", line):
            yield from _unknown(shlex.split(line.split(" | ")[0].rstrip("…"), comments=True)[1:])


def _unknown(words: list[str]) -> Iterator[str]:
    group = cli
    assert isinstance(group, click.Group)
    command = group.get_command(click.Context(group), words[0])
    if command is None:
        yield f"no such command: {words[0]}"
        return
    try:
        context = command.make_context(words[0], words[1:])
        if isinstance(command, click.Group):
            name, action, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert action is not None
            action.make_context(name, rest, parent=context)
    except (click.MissingParameter, click.BadOptionUsage):
        pass  # it is only spoken of
    except click.UsageError as error:
        yield f"lockwork {shlex.join(words)}: {error.format_message()}"
