"""`lockwork stocks`."""

from __future__ import annotations

from cli.conftest import Office


def test_stocks_are_listed(office: Office) -> None:
    phones = office.lw.stock("phones", 10, queue="sums")
    phones.reserve("ada", 3)
    assert office.run("stocks", "phones").output == (
        "stock   queue  total  available  reserved  sold  expired\n"
        "phones  sums      10          7         3     0        0\n"
    )
    (found,) = office.json("stocks")["stocks"]
    assert found == {
        "name": "phones",
        "queue": "sums",
        "status": {"total": 10, "available": 7, "reserved": 3, "sold": 0, "expired": 0},
    }
    assert str(office.run("stocks", "phonse").exception) == "no stock phonse exists: did you mean phones?"
    assert office.run("stocks", "--prefix", "none").output == "no stock is on this server\n"
    phones.delete()
