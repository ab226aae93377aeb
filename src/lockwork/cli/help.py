"""A command whose help ends with examples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from lockwork.foreign_words import WORKER_OPTIONS
from lockwork.suggestions import closest

_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+")
_CUTOFF = 0.8
"""The least similarity of a word and an option: the word may be any name."""


class Command(click.Command):
    """A command with examples: command lines and their meanings."""

    def __init__(self, *args: Any, examples: Mapping[str, str], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.examples: Mapping[str, str] = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = complete_watch(args)
        words = tuple(args)  # click empties the list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = self._hint(ctx, error.option_name, words)
            if not hint:
                raise
            raise click.UsageError(f"No such option '{error.option_name}': {hint}", ctx) from None

    def _hint(self, ctx: click.Context, option: str, args: Sequence[str]) -> str:
        """Suggest options for an unknown option, by its value (--state done) or its name; "" for click's suggestion."""
        if self.name == "worker" and option in WORKER_OPTIONS:
            return WORKER_OPTIONS[option]
        options = [each for each in self.params if isinstance(each, click.Option)]
        flags = [name for each in options if each.is_flag for name in each.opts]
        at = next((at for at, word in enumerate(args) if word.partition("=")[0] == option), len(args))
        value = "".join(args[at : at + 1]).partition("=")[2] or "".join(args[at + 1 : at + 2])
        close = closest(f"--{value}", flags, _CUTOFF)
        if close and not value.startswith("-"):
            return f"did you mean {close}?"
        same = [name for each in options if each.name == option.strip("-") for name in each.opts]
        if same:
            return f"there are {', '.join(same)}" if len(same) > 1 else f"did you mean {same[0]}?"
        if others := _commands_with(option, ctx):
            return f"it is an option of {' and '.join(filter(None, (', '.join(others[:-1]), others[-1])))}"
        if option in ("--url", "--prefix"):
            return "the app names its server, or LOCKWORK_URL"
        words = [each.make_metavar(ctx) for each in self.params if isinstance(each, click.Argument)]
        argument = next((word for word in words if option.strip("-").upper() in re.findall(r"[A-Z]+", word)), "")
        return f"omit it before the name: {_path(ctx)} {argument}" if argument else ""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)


def complete_watch(args: Sequence[str]) -> list[str]:
    """Add the default number to a --watch without one: click would take the next word as its value."""
    end = args.index("--") if "--" in args else len(args)
    return [
        "--watch=2" if word == "--watch" and not _NUMBER.fullmatch("".join(args[at + 1 : end][:1])) else word
        for at, word in enumerate(args[:end])
    ] + list(args[end:])


def write_examples(examples: Mapping[str, str], formatter: click.HelpFormatter) -> None:
    """Write command lines below their meanings, one each a line."""
    formatter.write_paragraph()
    formatter.write_heading("Examples")
    formatter.indent()
    for line, meaning in examples.items():
        formatter.write_text(f"# {meaning}")
        formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
    formatter.dedent()


def _commands_with(option: str, ctx: click.Context) -> list[str]:
    """Return the other commands of the same group that have this option."""
    group = ctx.parent and ctx.parent.command
    if not isinstance(group, click.Group) or ctx.parent is None or ctx.parent.parent is None:
        return []
    return [
        f"{_path(ctx.parent)} {name}"
        for name, each in group.commands.items()
        if any(option in param.opts for param in each.params if isinstance(param, click.Option))
    ]


def _path(ctx: click.Context) -> str:
    """Return the command line up to this command."""
    names = [ctx.info_name or ""]
    while (ctx := ctx.parent) is not None and ctx.parent is not None:  # type: ignore[assignment]
        names.insert(0, ctx.info_name or "")
    return " ".join(["lockwork", *names])
