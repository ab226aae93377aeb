"""A small sale from the command line, with all its processes and a worker that is killed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from examples.conftest import Place


def test_small_sale_keeps_its_guarantees(place: Place) -> None:
    done = place.run("--buyers", "300", "--stock", "20", "--seed", "3", "--json")
    assert done.stderr == ""
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    report = json.loads(line)
    assert {key: report[key] for key in ("buyers", "stock", "seed", "oversold", "lost", "duplicates")} == {
        "buyers": 300, "stock": 20, "seed": 3, "oversold": 0, "lost": 0, "duplicates": 0,
    }  # fmt: skip
    assert report["sold"] == 20
    assert report["reservations_expired"] > 0
    assert report["orders_settled"] == report["sold"] + report["reservations_expired"]
    assert report["killed_workers"] == 1
    assert report["recovered_jobs"] >= 1
    assert report["requests"] >= 300
    assert 0 < report["request_ms_p50"] <= report["request_ms_p99"]


def test_sale_with_more_phones_than_buyers_keeps_its_guarantees(place: Place) -> None:
    done = place.run("--buyers", "8", "--stock", "30")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"sold +[1-8]  ", done.stdout)
    assert re.search(r"oversold +0  ", done.stdout)
    assert "was killed (SIGKILL) with" in done.stdout
    assert "\x1b" not in done.stdout
