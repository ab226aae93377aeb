"""The rows that chaos runs write into their report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos import tiers
from chaos.report import CONTROLS, RUNS, Report, name_of, with_row

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
EMPTY = "# A\n\n| run | b |\n|---|---|\n\nbetween\n\n| negative control | b |\n|---|---|\n\n## End\n"


def test_newer_run_replaces_its_row_and_no_other() -> None:
    text = with_row(with_row(with_row(EMPTY, RUNS, ["one", "1"]), RUNS, ["one more", "2"]), RUNS, ["one", "a|b\nc"])
    assert text == EMPTY.replace("|---|---|\n\nbet", "|---|---|\n| one | a/b c |\n| one more | 2 |\n\nbet")


def test_row_of_a_control_is_in_its_own_table() -> None:
    text = with_row(EMPTY, CONTROLS, ["one", "1"])
    assert text == EMPTY.replace("|---|---|\n\n## End", "|---|---|\n| one | 1 |\n\n## End")


def test_page_without_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="the page has no table"):
        with_row("# A\n", RUNS, ["one"])


def test_row_has_the_violations_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "TIER", "nightly")
    monkeypatch.setenv("LOCKWORK_CHAOS_KILLS", "7")
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    row = Report("jobs", name_of("test_jobs_survive[always]"), RUNS, page)
    row.run("1 job", "SIGKILL to 7 processes", "0 lost", [f"problem {number}" for number in range(5)])
    (line,) = (line for line in page.read_text().splitlines() if line.startswith("| jobs survive (always) |"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2:6] == ["1 job", "SIGKILL to 7 processes", "0 lost", "problem 0; problem 1; problem 2; 5 in all"]
    assert re.fullmatch(r"\d+ s; \w+ [\d.]+, Python [\d.]+, \d+ cores, \d+ GB", cells[6])
    assert cells[7] == f"`make chaos TIER=nightly PIECE=jobs SEED={tiers.SEED} KILLS=7`"


def test_run_that_ends_early_does_not_keep_its_old_row(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(with_row(EMPTY, RUNS, ["jobs survive", "none"]))
    Report("jobs", "jobs survive", RUNS, page).unfinished()
    assert "it did not end: see its log" in page.read_text()
    assert "| none |" not in page.read_text()


def test_unknown_tier_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "TIER", "nigthly")
    with pytest.raises(ValueError, match="there is no tier 'nigthly' of chaos runs: use test, long, nightly"):
        tiers.counts("jobs")


def test_row_has_as_many_cells_as_its_table() -> None:
    tables: dict[str, int] = {}
    columns = 0
    for line in PAGE.read_text().splitlines():
        if line.startswith((RUNS, CONTROLS)):
            columns = tables[line] = line.count("|")
        elif not line.startswith("|"):
            columns = 0
        assert columns in (0, line.count("|")), line
    assert len(tables) == 2
