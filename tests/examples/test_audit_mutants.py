"""Shops that break their promises: the audit of a real sale must find them out, or it proves nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from examples.conftest import Place

pytestmark = pytest.mark.timeout(120)

SHOP = Path(__file__).parents[2] / "examples" / "flashsale"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the shop, to be changed."""
    return Path(shutil.copytree(SHOP, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__")))


def change(program: Path, old: str, new: str) -> None:
    text = program.read_text()
    assert old in text
    program.write_text(text.replace(old, new))


def sell(place: Place, shop: Path, stock: int) -> tuple[int, dict[str, Any], str]:
    done = place.run("--shop", str(shop), "--buyers", "300", "--stock", str(stock), "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_reading_and_then_taking_oversells(place: Place, copied: Path) -> None:
    shutil.copy(Path(__file__).with_name("naive.py"), copied)
    with (copied / "tasks.py").open("a") as tasks:
        tasks.write("\n\nfrom naive import NaiveStock\n\nphones = NaiveStock(PHONES, place_order, order_paid)\n")
    status, told, errors = sell(place, copied, 20)
    assert status == 1
    assert told["oversold"] > 0
    assert told["sold"] == 20 + told["oversold"]
    assert "lockwork: oversold: " in errors


SLOW_AFTERWARDS = """

_write = write


def write(reservation: str, event: str, buyer: str | None = None) -> None:
    _write(reservation, event, buyer)
    time.sleep(0.5)


def writers() -> int:
    return int(_ledger().execute("SELECT count(DISTINCT worker) FROM deliveries").fetchone()[0])
"""


@pytest.mark.parametrize("remembers", [True, False])
def test_ledger_must_ignore_entries_of_a_killed_worker(place: Place, copied: Path, *, remembers: bool) -> None:
    # the job spends its time after its entry, so a killed worker has written it
    change(copied / "tasks.py", "    outside_world()\n", "")
    ledger = copied / "ledger.py"
    if not remembers:
        change(ledger, "INSERT OR IGNORE", "INSERT")
        change(ledger, ", UNIQUE (reservation, event)", "")
    with ledger.open("a") as text:
        text.write(SLOW_AFTERWARDS)
    # no sale, and so no kill, before both worker processes have written
    shop, pays = copied / "shop.py", '    reservation = (await request.json())["reservation"]\n'
    change(shop, pays, "    while ledger.writers() < 2:\n        await asyncio.sleep(0.05)\n" + pays)
    change(shop, "import ledger\n", "import asyncio\n\nimport ledger\n")
    status, told, errors = sell(place, copied, 100)
    assert (told["oversold"], told["lost"]) == (0, 0)
    if remembers:
        assert (status, told["duplicates"], errors) == (0, 0, "")
        assert 0 < told["repeated_deliveries"] <= told["recovered_jobs"], told
    else:
        assert status == 1, told
        assert told["duplicates"] > 0
        assert "lockwork: duplicates: order " in errors


def test_shop_that_does_not_open_is_one_clear_error(place: Place, copied: Path) -> None:
    with (copied / "shop.py").open("a") as text:
        text.write('\nraise RuntimeError("the key is lost")\n')
    done = place.run("--shop", str(copied), "--json")
    assert (done.returncode, done.stdout) == (1, "")
    expected = "lockwork: the shop ended in the middle of the sale (exit status 1): RuntimeError: the key is lost\n"
    assert done.stderr == expected
