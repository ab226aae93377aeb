"""`lockwork doctor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lockwork import words
from lockwork.app.lockwork import Lockwork
from lockwork.cli.help import Command
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.text import printable, state
from lockwork.doctor.finding import Finding
from lockwork.doctor.findings import Examination, examine
from lockwork.errors import (
    ConfigError,
    FunctionsMissing,
    LockworkError,
    ServerRefused,
    ServerUnavailable,
    ServerUnsuitable,
)
from lockwork.inspection.overview import OverviewReader

_FIXES = (
    (FunctionsMissing, "Each version of Lockwork needs its own functions: see `lockwork functions`."),
    (ServerUnavailable, "Start it, or pass another server in --url or LOCKWORK_URL."),
    (ServerUnsuitable, "Pass another server in --url or LOCKWORK_URL."),
    (ServerRefused, "Use a user with the role `operator` or `viewer`, and its password: see `lockwork acl`."),
)
"""The fix for a server that cannot be examined, by the class of its error."""


@click.command(
    cls=Command,
    examples={
        "lockwork doctor": "List problems and how to fix them; exit 1 if one is serious.",
        "lockwork doctor --json": "The same for a program.",
        "lockwork doctor --scan": "Also find what an older version of Lockwork left in no list.",
    },
)
@reports
@names_the_app
@click.option("--scan", is_flag=True, help="Walk once through all keys of the server, and list what no index has.")
def doctor(*, output: Output, url: str | None, prefix: str, scan: bool) -> None:
    """Check the server, its queues and workers; each finding says what to change.

    The exit status is 1 if a finding is serious.
    """
    serious = False
    reader = OverviewReader()

    def report() -> Report:
        nonlocal serious
        with connected(url, prefix) as lw:
            examination = _examine(lw, reader, scan=scan)
        serious = any(finding.level == "serious" for finding in examination.findings)
        return Report(
            {"findings": examination.findings, "checked": _checked(examination)},
            [*listed(examination.findings), *_scope(examination)],
        )

    output.show(report)
    sys.exit(1 if serious else 0)


def _examine(lw: Lockwork, reader: OverviewReader, *, scan: bool) -> Examination:
    """Return all findings; a server that does not answer is a finding."""
    try:
        return examine(lw, reader, scan=scan)
    except ConfigError:  # its text says what to do
        raise
    except LockworkError as error:
        fix = next((fix for kind, fix in _FIXES if isinstance(error, kind)), "See the server's log.")
        return Examination([Finding("serious", "server", _sentence(str(error)), fix)], [], 0, 0, 0)


def _checked(seen: Examination) -> dict[str, Any]:
    servers = [{"version": each.version or None, "latency": each.latency} for each in seen.servers if each.info]
    return {"servers": servers, "queues": seen.queues, "workers": seen.workers, "apps": seen.apps}


def _scope(seen: Examination) -> list[Text]:
    """Return the line that lists the checked servers, and the numbers of checked queues, workers and apps."""
    if not seen.servers:
        return []
    servers = [f"{each.version}, {words.latency(each.latency)} a call" for each in seen.servers if each.info]
    counts = ((seen.queues, "queue"), (seen.workers, "worker"), (seen.apps, "app"))
    parts = [*servers, ", ".join(words.several(number, what, f"{what}s") for number, what in counts)]
    return [Text(f"checked: {'; '.join(parts)}", style="dim")]


def _sentence(text: str) -> str:
    """Return an error's message as a sentence: the fix follows."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def listed(findings: Sequence[Finding]) -> list[RenderableType]:
    """Return the findings as lines of text."""
    if not findings:
        return [state("succeeded", "nothing is wrong")]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        subject, text, fix = map(printable, (finding.subject, finding.text, finding.fix))
        table.add_row(state(finding.level), Text.assemble((f"{subject}: ", "bold"), f"{text}\n{fix}"))
    return [table]
