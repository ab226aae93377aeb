"""Responses of a worker's health port, and its parsed metrics."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

SAMPLE = re.compile(r'(lockwork_\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (-?[\d.e+-]+)')

_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def parsed(text: str) -> dict[str, float]:
    """Return the samples by name and labels; fail if the text is not in Prometheus' text format."""
    found: dict[str, float] = {}
    announced: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# "):
            word, name = line.split(" ", 3)[1:3]
            assert word in ("HELP", "TYPE")
            announced.add(name)
            continue
        match = SAMPLE.fullmatch(line)
        assert match is not None, line
        assert {match[1], _HISTOGRAM.sub("", match[1])} & announced, line
        key = match[1].removeprefix("lockwork_") + (f"{{{match[2]}}}" if match[2] else "")
        assert key not in found, line
        found[key] = float(match[3])
    assert text.endswith("\n")
    return found


def answer(port: int, path: str) -> tuple[int, str]:
    """Send a request to a health port; return status 0 if nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
            return int(reply.status), reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (urllib.error.URLError, OSError):
        return 0, ""


def scraped(port: int) -> dict[str, float]:
    """Return the worker's current samples, or none if nothing answers."""
    status, text = answer(port, "/metrics")
    assert status in (0, 200), text
    return parsed(text) if status else {}
