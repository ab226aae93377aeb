"""A command group of one kind of thing: `queue pause mail` acts on a queue, `queue mail` shows one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

import click
from click.shell_completion import CompletionItem

from lockwork.cli.help import Command, complete_watch, write_examples
from lockwork.errors import ConfigError
from lockwork.suggestions import closest

_WORDS = "lockwork.cli.words"
"""The key of the words of a default action in a context."""


class ActionGroup(click.Group):
    """Actions that come before the name of a thing. If the first word is no action, the action `default` runs."""

    command_class: type[click.Command] | None = Command

    def __init__(self, name: str, *, default: str, help: str) -> None:
        super().__init__(name, help=help)
        self._default = default

    @property
    def examples(self) -> Mapping[str, str]:
        """The examples of all actions."""
        return {line: text for action in self._actions() for line, text in action.examples.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if first in self.commands or first in ctx.help_option_names or (ctx.resilient_parsing and not args):
            return super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            words = self._words(ctx, args)
            self._refuse_late_action(ctx, args, words)
            self._refuse_more_words(ctx, args, words)
            ctx.meta[_WORDS] = words
        return super().parse_args(ctx, [self._default, *args])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            for word in ctx.meta.get(_WORDS, ()):  # the only word may be a mistyped action
                if close := closest(word, self.commands):
                    error.add_note(f"If you meant the action: {self._line(close)}")
            raise

    def _words(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        """Return the words that are neither options nor their values; after "--" no word is an action."""
        view = self.commands[self._default]
        before = complete_watch(args[: args.index("--")] if "--" in args else args)
        probe = click.Context(view, parent=ctx, ignore_unknown_options=True, resilient_parsing=True)
        values, rest, _ = view.make_parser(probe).parse_args(before)
        named = [values.get(each.name or "") for each in _arguments(view)]
        return [word for word in (*named, *rest) if isinstance(word, str)]

    def _refuse_late_action(self, ctx: click.Context, args: Sequence[str], words: Sequence[str]) -> None:
        """Raise a usage error with the corrected command line if an action comes after a name or an option."""
        action = next((word for word in words if word in self.commands), None)
        if action is None:
            return
        text = f"the action comes first: {self._line(action, *_without_last(args, action))}"
        if len(words) == 1 and _arguments(self.commands[self._default]):
            text += f"; for the name {action}: {self._line(self._default, *args)}"
        ctx.fail(text)

    def _refuse_more_words(self, ctx: click.Context, args: Sequence[str], words: Sequence[str]) -> None:
        """Raise a usage error with a suggestion if there are more words than the default action has arguments."""
        view = self.commands[self._default]
        if len(words) <= len(_arguments(view)) or any(word.startswith("-") for word in words):
            return  # Command names the unknown options
        for word in words:
            if close := closest(word, self.commands):
                line = self._line(close, *_without_last(args, word))
                ctx.fail(f"no action of {self.name} is named {word!r}: did you mean {line}?")
        options = {name for each in view.params if isinstance(each, click.Option) for name in each.opts}
        for word in words:
            if f"--{word}" in options:
                ctx.fail(f"no action of {self.name} is named {word!r}: did you mean --{word}?")
        actions = ", ".join(self.commands)
        if not _arguments(view):
            queue = "; pass a queue as --queue" if "--queue" in options else ""
            ctx.fail(f"no action of {self.name} is named {words[0]!r}: there are {actions}{queue}")
        ctx.fail(f"pass one name, or an action and a name; the actions are {actions}")

    def _line(self, *words: str) -> str:
        return shlex.join(["lockwork", self.name or "", *words])

    def _actions(self) -> Iterator[Command]:
        for action in self.commands.values():
            assert isinstance(action, Command)
            yield action

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        view = self.commands[self._default]
        with view.make_context(self._default, [], parent=ctx, resilient_parsing=True) as default_context:
            if incomplete.startswith("-"):
                return view.shell_complete(default_context, incomplete)
            names = [item for each in _arguments(view)[:1] for item in each.shell_complete(default_context, incomplete)]
        return [*super().shell_complete(ctx, incomplete), *names]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        view = self.commands[self._default]
        pieces = view.collect_usage_pieces(click.Context(view, parent=ctx))
        formatter.write_usage(ctx.command_path, " ".join(pieces))
        formatter.write_usage(ctx.command_path, "ACTION [OPTIONS] ...", prefix=" " * len("Usage: "))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        view = self.commands[self._default]
        click.Command.format_options(view, click.Context(view, parent=ctx), formatter)
        with formatter.section("Actions"):
            default = {self._default: " This is the default."}
            formatter.write_dl([
                (each.name or "", each.get_short_help_str(100) + default.get(each.name or "", ""))
                for each in self._actions()
            ])  # fmt: skip
        formatter.write_paragraph()
        formatter.write_text("Each action has --help, with its options.")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)


def _arguments(command: click.Command) -> list[click.Argument]:
    return [each for each in command.params if isinstance(each, click.Argument)]


def _without_last(args: Sequence[str], word: str) -> list[str]:
    at = len(args) - 1 - list(reversed(args)).index(word)
    return [*args[:at], *args[at + 1 :]]
