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

import uvicorn
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page

from lockwork import Lockwork
from lockwork.dashboard import app
from lockwork.dashboard.connections import PROTOCOL

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""


@contextlib.contextmanager
def serving(url: str, **options: Any) -> Iterator[str]:
    """Serve a dashboard of the server at `url` on another thread; gives its address."""
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
    listener = socket.create_server(("127.0.0.1", 0))

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


SHOTS = Path(__file__).parents[2] / ".screenshots"
"""Folder of the screenshots of each run."""
SIZES = {"light": (1440, 900), "dark": (1440, 900), "phone": (390, 844)}


def barriers(page: Page) -> list[str]:
    """Return what on a page serious or critical rules of axe refuse."""
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in Axe().run(page).response["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


T = TypeVar("T")


def aside(call: Callable[[], T]) -> T:
    """Call it on another thread: the thread that drives the browser has an event loop, which must not block."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


SANDBOX = ["--no-sandbox"] if os.getuid() == 0 else []
"""Chromium refuses to run as root in its sandbox, and it only looks at our own pages."""


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


def troubles_of(page: Page) -> list[str]:
    """Return what went wrong on a page."""
    return _troubles[id(page)]
