"""How a sale ended: as a table for people, or as one JSON object."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from play.sale import SaleOutcome
from play.screen import counted

_SHOWN = 10


def as_json(outcome: SaleOutcome) -> dict[str, Any]:
    """The figures by name; times of requests are in milliseconds, `seconds` is the whole demo."""
    verdict = outcome.verdict
    return {
        "buyers": outcome.plan.buyers,
        "stock": outcome.plan.stock,
        "seed": outcome.plan.seed,
        "requests": outcome.seen.requests,
        "request_ms_p50": outcome.seen.p50,
        "request_ms_p99": outcome.seen.p99,
        "sold": verdict.sold,
        "oversold": verdict.count("oversold"),
        "lost": verdict.count("lost"),
        "duplicates": verdict.count("duplicates"),
        "reservations_expired": verdict.expired,
        "orders_settled": verdict.settled,
        "killed_workers": 1 if outcome.victim else 0,
        "recovered_jobs": outcome.recovered,
        "repeated_deliveries": verdict.repeated,
        "seconds": round(outcome.seconds, 1),
    }


def findings(outcome: SaleOutcome) -> list[str]:
    """What is wrong, in words; the first of it, if it is much."""
    found = [f"{finding.kind}: {finding.text}" for finding in outcome.verdict.findings]
    more = [f"and {len(found) - _SHOWN:,} findings more"] if len(found) > _SHOWN else []
    return found[:_SHOWN] + more


def print_table(console: Console, outcome: SaleOutcome) -> None:
    """Say how it ended, and what each figure means."""
    figures, seen, verdict, victim = as_json(outcome), outcome.seen, outcome.verdict, outcome.victim
    table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="bold")
    table.add_column(style="dim")
    table.add_row("requests", f"{seen.requests:,}", f"{seen.retries:,} sent again by impatient buyers")
    table.add_row("request p50", f"{seen.p50:,.1f} ms", "half of the answers came within this time")
    table.add_row("request p99", f"{seen.p99:,.1f} ms", "99 in 100 did")
    table.add_row("stock", f"{outcome.plan.stock:,}", "phones, at most one per buyer")
    table.add_row("sold", f"{verdict.sold:,}", "reserved, paid, and in the ledger")
    table.add_row("oversold", _bad(figures["oversold"]), "phones sold that were never there")
    table.add_row("lost", _bad(figures["lost"]), "promised orders, or jobs, that have no end")
    table.add_row("duplicated", _bad(figures["duplicates"]), "orders or payments that were made twice")
    table.add_row("reservations expired", f"{verdict.expired:,}", "not paid in time: back on sale")
    table.add_row("orders settled", f"{verdict.settled:,}", "written as paid, or as closed unpaid")
    hands = f"by kill -9, with {counted(victim.in_hand, 'job')} running" if victim else ""
    table.add_row("worker killed", str(figures["killed_workers"]), hands)
    table.add_row("its jobs recovered", f"{outcome.recovered:,}", "returned at once; other workers ran them")
    console.print(table)
    for line in findings(outcome):
        console.print(Text(line, style="red"))
    if outcome.good:
        sold = f"{counted(verdict.sold, 'phone')} sold, each of them once, and no order lost,"
        console.print(Text(f"{sold} although a worker was killed.", style="green"))


def _bad(figure: int) -> Text:
    return Text(f"{figure:,}", style="bold red" if figure else "bold green")
