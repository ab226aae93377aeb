"""Calls that must be errors to mypy and pyright; each line says so, and a needless ignore is an error, too."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork("redis://nowhere")


@lw.lock("report:{day}")
def report(day: str, *, pages: int = 1) -> list[str]:
    return [day] * pages


@lw.lock("report")
async def areport(day: str) -> bytes:
    return day.encode()


def called() -> None:
    report(7)  # type: ignore[arg-type]
    report()  # type: ignore[call-arg]
    report("monday", sheets=2)  # type: ignore[call-arg]
    number: int = report("monday")  # type: ignore[assignment]
    print(number)


async def awaited() -> None:
    await areport(b"monday")  # type: ignore[arg-type]
    await report("monday")  # type: ignore[misc]


def wrong_options() -> None:
    lw.lock("x", patience=1)  # type: ignore[arg-type]
    lw.lock(7)  # type: ignore[arg-type]
    lw.lock("x", replicas="2")  # type: ignore[arg-type]
