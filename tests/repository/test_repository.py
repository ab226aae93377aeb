"""The files that the code's host, packagers and contributors read: workflows, forms, constraints, the release."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.dependabot", [GITHUB / "dependabot.yml"]),
        ("vendor.github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
        ("vendor.github-issue-forms", [GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml" for name in ("bug", "feature")]),
    ],
)
def test_file_of_the_host_follows_its_schema(schema: str, files: list[Path]) -> None:
    checked = run(BIN / "check-jsonschema", "--builtin-schema", schema, *files)
    assert checked.returncode == 0, checked.stdout


def test_workflows_are_safe() -> None:
    checked = run(BIN / "zizmor", "--offline", "--no-progress", "--persona", "pedantic", GITHUB)
    assert checked.returncode == 0, checked.stdout


def test_workflows_call_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(workflow.read_text() for workflow in WORKFLOWS)
    called = {*re.findall(r"run: make ([a-z]+)", text), *re.findall(r"^          - ([a-z]+)", text, re.MULTILINE)}
    assert {"chaos", "docs", "matrix", "release", "test"} <= called
    assert called - targets == set()


def test_constraints_are_exact_versions_without_an_index() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+]+", line)] == []
    assert {"mypy", "pytest", "redis", "ruff"} <= {line.partition("==")[0] for line in lines}


def test_release_is_refused_while_its_addresses_are_placeholders() -> None:
    """It lists the reasons, and builds nothing."""
    refused = run(sys.executable, ROOT / "scripts" / "release.py")
    assert refused.returncode == 1
    assert re.search(r"replace lockwork\.invalid by the real address in .*SECURITY\.md", refused.stdout)


def test_pages_install_lockwork_from_where_it_is() -> None:
    checked = run(sys.executable, ROOT / "scripts" / "install_commands.py", "--check")
    assert checked.returncode == 0, checked.stdout


def test_pages_install_lockwork_from_the_index_after_the_release() -> None:
    names = runpy.run_path(str(ROOT / "scripts" / "install_commands.py"))
    names["current"].__globals__["RELEASED"] = True
    current, comment = names["current"], "# in a checkout, until the first release"
    assert current(f"$ pip install '.[flask]'    {comment}\n") == "$ pip install 'lockwork[flask]'\n"
    assert current(f"$ pip install '.[fast]'    {comment}; x\n") == "$ pip install 'lockwork[fast]'    # x\n"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False
    )
