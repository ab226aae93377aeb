"""Tables on narrow terminals: no line is wider than the screen, all columns stay, and ids are not cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lockwork.cli.dead_reports import _JOBS as DEAD
from lockwork.cli.flows import _COLUMNS as FLOWS
from lockwork.cli.jobs import _COLUMNS as JOBS
from lockwork.cli.queue import _COLUMNS as QUEUES
from lockwork.cli.schedules import _COLUMNS as SCHEDULES
from lockwork.cli.table import Column, Listing
from lockwork.cli.workers import COLUMNS as WORKERS

LONG = "a.rather.long.name.of.some.team.in.the.warehouse"
ERROR = "ConnectionError: no line to 5: refused by mail.example.org:25 after 3 attempts, the last one 10 s ago"
JOB = ["P77xxbgPzx5xxg3o.00001", "mail", "send", "42", "succeeded", "1", "23 h 59 min ago", "17 ms", "", "web1/4711"]
FULL = [
    "P77xxbgPzx5xxg3o.00002",
    LONG,
    LONG,
    "[1, 2, 3, 4, 5]" * 9,
    "scheduled",
    "2",
    "in 23 h 59 min",
    "",
    ERROR,
    "w/1",
]
WIDE = ["P77xxbgPzx5xxg3o", "mail", "send", "ü東京" * 30, "dead", "1", "1.0 s ago", "1 ms", ERROR, "web1/4711"]


def printed(columns: tuple[Column, ...], rows: list[list[str]], width: int, *, terminal: bool = True) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None, highlight=False)
    console.print(Listing(columns, rows), crop=False)
    lines = out.getvalue().splitlines()
    assert [line for line in lines if Console().measure(line).maximum > width] == []
    return [line.rstrip() for line in lines]


def test_error_goes_below_its_row_where_there_is_no_room() -> None:
    head, first, second, error = printed(JOBS, [JOB, WIDE], 80)
    assert head == "id                      queue  task  arguments        state                 when"
    assert first == "P77xxbgPzx5xxg3o.00001  mail   send  42               succeeded  23 h 59 min ago"
    assert second.startswith("P77xxbgPzx5xxg3o        mail   send  ü東京ü東京ü東 …")
    assert error == f"    {ERROR[:75]}…"


def test_narrow_terminal_has_queue_and_task_below_the_id() -> None:
    head, first, below, second, *others = printed(JOBS, [JOB, WIDE], 60)
    assert head == "id                      state                 when"
    assert first == "P77xxbgPzx5xxg3o.00001  succeeded  23 h 59 min ago"
    assert below == "    mail  send  42"
    assert second == "P77xxbgPzx5xxg3o        dead             1.0 s ago"
    assert [line[:14] for line in others] == ["    mail  send", f"    {'ü東京' * 3}ü", "    Connection"]


@pytest.mark.parametrize("width", [60, 80])
def test_error_of_a_dead_job_is_not_folded_into_a_narrow_column(width: int) -> None:
    lines = printed(DEAD, [[JOB[0], "send", ERROR, "3", "23 h 59 min"]], width)
    assert lines[0].split() == ["id", "task", "attempts", "died", "ago"]
    assert lines[2].startswith("    ConnectionError: no line to 5: refused by")


@pytest.mark.parametrize("width", [60, 80])
def test_flows_fit(width: int) -> None:
    row = [JOB[0][:16], "warehouse", "succeeded", "10,000", "10,000", "", "", "23 h 59 min ago"]
    lines = printed(FLOWS, [row], width)
    assert "23 h 59 min ago" in lines[1]
    assert "warehouse" in "\n".join(lines)


@pytest.mark.parametrize("width", [80, 100, 120, 160, 240])
@pytest.mark.parametrize("terminal", [True, False])
def test_jobs_fit_and_keep_their_ids_and_columns(width: int, terminal: bool) -> None:
    lines = printed(JOBS, [JOB, FULL, WIDE], width, terminal=terminal)
    text = "\n".join(lines)
    for title in ("id", "queue", "task", "state", "when"):
        assert title in lines[0].split()
    for whole in (JOB[0], FULL[0], WIDE[0], "succeeded", "scheduled", "in 23 h 59 min", "23 h 59 min ago"):
        assert whole in text
    if not terminal:
        assert "…" not in text


def test_wide_terminal_shows_all_in_one_row() -> None:
    assert len(printed(JOBS, [JOB, FULL], 600)) == 3


@pytest.mark.parametrize("width", [80, 120])
def test_long_names_are_folded_and_numbers_never(width: int) -> None:
    row = [LONG, "paused", "1,000,000", "1,000", "1,000,000", "", "100,000", "1,000", "rate 100/s"]
    lines = printed(QUEUES, [row], width)
    assert lines[0].split() == ["queue", "state", "ready", "running", "scheduled", "dead", "workers", "limits"]
    for cell in row[1:]:
        assert cell.split(" ")[0] in "\n".join(lines)


@pytest.mark.parametrize("width", [80, 120])
def test_workers_of_many_queues_keep_their_names(width: int) -> None:
    name = "vm-12/11655/1a8887fa2b"
    row = [name, "running", "shop:lw", ", ".join([LONG] * 4), "1/100", "46.5 MB", "1 ms", "2 d", "0.4 s", "0.1.0"]
    lines = printed(WORKERS, [row], width)
    assert name in lines[1]
    assert "1/100" in lines[1]


def test_schedules_keep_when_they_fire_next() -> None:
    row = [LONG, LONG, LONG, "0 3 * * mon-fri (Europe/Berlin)", "code", "open", "in 23 h 59 min", "", "1,000", "", ""]
    assert "in 23 h 59 min" in "\n".join(printed(SCHEDULES, [row], 80))
