"""`lockwork demo --dashboard`: the sale in a browser, until Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from processes import until

if TYPE_CHECKING:
    from examples.conftest import Place


@pytest.mark.timeout(300)
def test_dashboard_stays_with_buyers_until_ctrl_c(place: Place) -> None:
    with place.start("--buyers", "300", "--stock", "20", "--dashboard") as process:
        assert process.stdout is not None
        address = audit = ""
        for line in process.stdout:
            match = re.search(r"dashboard at (http://127\.0\.0\.1:\d+/)$", line)
            address = match[1] if match else address
            audit += line
            if "Ctrl-C" in line:
                break
        assert re.search(r"sold +20  ", audit)
        before = _sold(address)
        assert until(lambda: _sold(address) > before, "phones are sold after the audit")
        began = monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert monotonic() - began < 10
    assert (process.returncode, errors) == (0, "")
    place.check_empty()


def test_json_ends_with_the_audit(place: Place) -> None:
    done = place.run("--dashboard", "--json")
    assert done.returncode == 2
    assert "omit --json" in done.stderr


def _sold(address: str) -> int:
    with urllib.request.urlopen(f"{address}stocks", timeout=20) as response:
        page = response.read().decode()
    match = re.search(r'id="stock-orders-phone".*?<td class="right">([\d,]+)</td>', page)
    assert match, page
    return int(match[1].replace(",", ""))
