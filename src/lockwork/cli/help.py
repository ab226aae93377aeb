"""A command whose help ends with examples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+")
_CUTOFF = 0.8
"""How alike a word and an option must be: the word may be any name."""


class Command(click.Command):
    """A command with examples: command lines, and what each does."""

    def __init__(self, *args: Any, examples: Mapping[str, str], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.examples: Mapping[str, str] = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # the number after --watch may be left out, and what follows then is no number
        end = args.index("--") if "--" in args else len(args)
        for at, word in enumerate(args[:end]):
            if word == "--watch" and not (at + 1 < end and _NUMBER.fullmatch(args[at + 1])):
                args[at] = "--watch=2"
        given = tuple(args)  # click empties the list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = self._hint(ctx, error.option_name, given)
            if not hint:
                raise
            raise click.UsageError(f"No such option '{error.option_name}': {hint}", ctx) from None

    def _hint(self, ctx: click.Context, option: str, args: Sequence[str]) -> str:
        """Suggest options for one that does not exist, by its value (--state done) or its name; "" for click's own."""
        options = [each for each in self.params if isinstance(each, click.Option)]
        flags = [name for each in options if each.is_flag for name in each.opts]
        at = next((at for at, word in enumerate(args) if word.partition("=")[0] == option), len(args))
        value = "".join(args[at : at + 1]).partition("=")[2] or "".join(args[at + 1 : at + 2])
        close = get_close_matches(f"--{value}", flags, 1, _CUTOFF)
        if close and not value.startswith("-"):
            return f"did you mean {close[0]}?"
        meant = [name for each in options if each.name == option.strip("-") for name in each.opts]
        if meant:
            return f"there are {', '.join(meant)}" if len(meant) > 1 else f"did you mean {meant[0]}?"
        words = [each.make_metavar(ctx) for each in self.params if isinstance(each, click.Argument)]
        if option in ("--url", "--prefix"):
            return "the app names its server, or LOCKWORK_URL"
        found = next((word for word in words if option.strip("-").upper() in re.findall(r"[A-Z]+", word)), "")
        return f"omit it before the name: lockwork {ctx.info_name} {found}" if found else ""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_heading("Examples")
        formatter.indent()
        for line, meaning in self.examples.items():
            formatter.write_text(f"# {meaning}")
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
        formatter.dedent()
