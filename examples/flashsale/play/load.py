"""The crowd's reports: what the load process says of itself, ten times a second."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Seen:
    """How far the buyers are; the response times, in milliseconds, come with the last report."""

    buyers: int = 0
    requests: int = 0
    retries: int = 0
    p50: float = 0.0
    p99: float = 0.0


class Load:
    """The load process as its reports show it; `reports` is the descriptor they come from."""

    def __init__(self, reports: int) -> None:
        self.reports = reports
        self.gone: bool = False
        self._seen = Seen()
        self._rest = b""

    def read(self) -> Seen:
        """Take in what has come, and return the newest report; `gone` when there will be no other."""
        data = os.read(self.reports, 65536)
        self.gone = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines:
            known = {field.name for field in fields(Seen)}
            self._seen = Seen(**{name: value for name, value in json.loads(lines[-1]).items() if name in known})
        return self._seen
