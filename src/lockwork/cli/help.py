"""A command whose help ends with examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+")


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
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_heading("Examples")
        formatter.indent()
        for line, meaning in self.examples.items():
            formatter.write_text(f"# {meaning}")
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
        formatter.dedent()
