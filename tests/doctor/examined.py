"""A call of `lockwork doctor`: its findings, output, and exit status."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from click.testing import CliRunner

from lockwork.cli.commands import cli
from lockwork.doctor.finding import Finding


@dataclass(frozen=True)
class Examined:
    """The findings, output and exit status of a call of the command."""

    findings: list[Finding]
    text: str
    status: int

    def about(self, subject: str) -> list[Finding]:
        """The findings about a queue, a worker or the server."""
        return [finding for finding in self.findings if finding.subject.startswith(subject)]


def examine(url: str) -> Examined:
    """Run it, for people and for programs: both say the same, and the status is 1 if anything is serious."""
    for_program = CliRunner().invoke(cli, ["doctor", "--url", url, "--json"])
    shown = CliRunner(env={"COLUMNS": "1000"}).invoke(cli, ["doctor", "--url", url])
    findings = [Finding(**each) for each in json.loads(for_program.stdout)["findings"]]
    serious = any(finding.level == "serious" for finding in findings)
    assert for_program.exit_code == shown.exit_code == (1 if serious else 0)
    for finding in findings:
        assert re.search(rf"^{finding.level} +{re.escape(finding.subject)}: ", shown.stdout, re.MULTILINE)
        assert finding.fix in shown.stdout
    return Examined(findings, shown.stdout, shown.exit_code)
