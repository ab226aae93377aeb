"""`lockwork doctor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.help import Command
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.text import printable, state
from lockwork.doctor import Finding, findings
from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable, ServerUnsuitable

_FIXES = (
    (ServerUnavailable, "Start it, or pass another server in --url or LOCKWORK_URL."),
    (ServerUnsuitable, "Pass another server in --url or LOCKWORK_URL."),
    (ServerRefused, "Use a user with the role `operator` or `viewer`, and its password: see `lockwork acl`."),
)
"""What to do about a server that cannot be examined."""


@click.command(
    cls=Command,
    examples={
        "lockwork doctor": "List problems and how to fix them; exit 1 if one is serious.",
        "lockwork doctor --json": "The same for a program.",
    },
)
@reports
@names_the_app
def doctor(*, output: Output, url: str | None, prefix: str) -> None:
    """Check the server, its queues and workers; each finding says what to change. Exits 1 on a serious finding."""
    serious = False

    def report() -> Report:
        nonlocal serious
        with connected(url, prefix) as lw:
            found = _examine(lw)
        serious = any(finding.level == "serious" for finding in found)
        return Report({"findings": found}, listed(found))

    output.show(report)
    sys.exit(1 if serious else 0)


def _examine(lw: Lockwork) -> list[Finding]:
    """All findings; a server that does not answer is one."""
    try:
        return findings(lw, deep=True)
    except LockworkError as error:
        fix = next((fix for kind, fix in _FIXES if isinstance(error, kind)), "See the server's log.")
        return [Finding("serious", "server", _sentence(str(error)), fix)]


def _sentence(text: str) -> str:
    """An error's message as a sentence: the fix follows."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def listed(found: Sequence[Finding]) -> list[RenderableType]:
    """The findings as lines of text."""
    if not found:
        return [state("succeeded", "nothing is wrong")]
    return [
        Text.assemble(
            state(finding.level),
            "  ",
            (f"{printable(finding.subject)}: ", "bold"),
            f"{printable(finding.text)} {printable(finding.fix)}",
        )
        for finding in found
    ]
