"""A dashboard served for real, and a Chromium that looks at it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import axe_playwright_python  # type: ignore[import-untyped]
import uvicorn
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page

from lockwork import Lockwork
from lockwork.dashboard import app
from lockwork.dashboard.connections import PROTOCOL

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), "")


@contextlib.contextmanager
def serving(url: str, **options: Any) -> Iterator[str]:
    """Serve a dashboard of the server at `url` on another thread; gives its address.

    All dashboards of a process have the same port, if it is free: the pages of one address share a context.
    """
    lw = Lockwork(url, patience=2)
    config = uvicorn.Config(
        app(lw, **{"refresh": 0.2} | options),
        http=PROTOCOL,
        ws="none",
        log_config=None,
        log_level="critical",  # it says that it cuts live pages off
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    listener = _listener()

    async def run() -> None:
        async with lw:
            await server.serve([listener])

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="dashboard")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


_port = 0
"""Port of the first dashboard."""


def _listener() -> socket.socket:
    global _port  # noqa: PLW0603
    try:
        made = socket.create_server(("127.0.0.1", _port))
    except OSError:  # another dashboard or process has it
        return socket.create_server(("127.0.0.1", 0))
    _port = made.getsockname()[1]
    return made


SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
SHOTS = os.environ.get("LOCKWORK_SCREENSHOTS")
"""Folder for screenshots of each page, from LOCKWORK_SCREENSHOTS; without it, none are taken."""
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
_RESULTS = {"resultTypes": ["violations"]}
_COLORS = {**_RESULTS, "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""Rules of axe that depend on colors."""
_BARRIERS = """([options, impacts]) => axe.run(options).then(({ violations }) => violations
  .filter(({ impact }) => impacts.includes(impact))
  .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`)))
"""


def looks_of(page: Page, size: str) -> Iterator[str]:
    """Show the open page light and then dark; on a phone only light."""
    page.emulate_media(color_scheme="light")
    page.evaluate(FRAMES)
    yield "phone" if size == "phone" else "light"
    if size == "desktop":
        page.emulate_media(color_scheme="dark")
        page.evaluate(FRAMES)
        yield "dark"


def photograph(page: Page, name: str) -> None:
    """Write a screenshot if a folder for it is set."""
    if SHOTS:
        # given a path, Playwright writes it on a thread that stays until the browser is closed
        (Path(SHOTS) / f"{name}.png").write_bytes(page.screenshot())


def barriers(page: Page, look: str = "light") -> list[str]:
    """Return what on a page serious or critical rules of axe refuse; of a dark page only its colors."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE)
    options = _COLORS if look == "dark" else _RESULTS
    found: list[str] = page.evaluate(_BARRIERS, [options, ["serious", "critical"]])
    return found


def violations(page: Page, look: str = "light") -> list[str]:
    """Return what on a page any rule of axe refuses; of a dark page only its colors."""
    page.evaluate(_AXE)
    options = _COLORS if look == "dark" else _RESULTS
    found: list[str] = page.evaluate(_BARRIERS, [options, ["minor", "moderate", "serious", "critical"]])
    return found


T = TypeVar("T")


def aside(call: Callable[[], T]) -> T:
    """Call it on another thread: the thread that drives the browser has an event loop, which must not block."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


SWITCHES = ["--process-per-site", "--disable-gpu", *(["--no-sandbox"] if os.getuid() == 0 else [])]
"""The pages of one context share a renderer. Chromium refuses to run as root in its sandbox."""


def watched(context: BrowserContext) -> Page:
    """Open a page that notes what goes wrong on it."""
    page = context.new_page()
    troubles: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        troubles.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("pageerror", lambda error: troubles.append(f"error {error}"))

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            troubles.append(message.text)

    page.on("console", hear)
    _troubles[id(page)] = troubles
    return page


_troubles: dict[int, list[str]] = {}
_contexts: dict[tuple[object, ...], BrowserContext] = {}
"""Contexts by browser, address and options. A new one costs twice as much CPU as a page of an old one."""


@contextlib.contextmanager
def opened(
    browser: Browser, address: str, *, size: tuple[int, int] = SIZES["desktop"], **options: Any
) -> Iterator[Page]:
    """Open a page for the dashboard at `address`, without cookies; fail after a dialog, an error or a console message.

    options: those of a context, except its size.
    """
    key = (browser, address, *sorted(options.items()))
    if key not in _contexts:
        _contexts[key] = browser.new_context(base_url=address, **options)
        _contexts[key].new_page().goto("/static/none")  # its renderer also serves the next pages
    page = watched(_contexts[key])
    page.set_viewport_size({"width": size[0], "height": size[1]})
    yield page
    page.close()
    _contexts[key].clear_cookies()
    assert troubles_of(page) == []


def forget_contexts() -> None:
    """Forget the contexts of a browser that ends."""
    _contexts.clear()


def troubles_of(page: Page) -> list[str]:
    """Return what went wrong on a page."""
    return _troubles[id(page)]
