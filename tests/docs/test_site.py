"""`make docs` refuses broken links and files from other hosts; its pages have no barriers in Chromium."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Browser, sync_playwright

from dashboard.browsing import CHROMIUM, SWITCHES, troubles_of, violations, watched

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
PAGES = [
    "index.html",
    "jobs.html",
    "job-states.html",
    "deploy.html",
    "reference/synchronizers.html",
    "compare/queues.html",
    "compare/dashboards.html",
    "coming-from/celery.html",
    "zh-CN.html",
]
LARGEST = 120_000
"""Bytes that a browser receives for the first page, compressed and without pictures."""
LARGEST_INDEX = 400_000
"""Bytes of the compressed index of the search, which a browser receives beside the page."""


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    """The script that builds the site."""
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<a href="missing.html">', "page.html: missing.html leads nowhere"),
        ('<a href="other.html#nowhere">', "page.html: other.html#nowhere names no place on that page"),
        ('<a href="#nowhere">', "page.html: #nowhere names no place on that page"),
        ('<img src="missing.png">', "page.html: missing.png leads nowhere"),
        ('<script src="https://cdn.example.com/x.js"></script>', "page.html: loads https://cdn.example.com/x.js"),
        ('<link rel="stylesheet" href="//example.com/a.css">', "page.html: loads //example.com/a.css"),
    ],
)
def test_problem_of_a_built_page_is_reported(
    docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setattr(docs, "MIN_PAGES", 2)
    (tmp_path / "other.html").write_text('<h1 id="there">')
    (tmp_path / "page.html").write_text(text)
    assert list(docs.problems(tmp_path)) == [problem]


def test_correct_built_pages_are_not_reported(
    docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = ["other.html", "other.html#there", "/page.html", "#", "https://example.com", "mailto:a@example.com"]
    (tmp_path / "other.html").write_text('<h1 id="there"><link rel="canonical" href="https://example.com/other.html">')
    (tmp_path / "page.html").write_text("".join(f'<a href="{link}">' for link in links))
    assert list(docs.problems(tmp_path)) == ["the site has 2 pages, and should have at least 40"]


@pytest.fixture(scope="module")
def site_browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("chromium is not installed")
    if not (SITE / "index.html").exists():
        pytest.skip("site/ does not exist: run `make docs` before the tests")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and writes no log."""

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a web server with the site."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE)) as server:
        thread = threading.Thread(target=server.serve_forever, name="site", daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# each page in each size and each scheme; the first ones in all four combinations
@pytest.mark.parametrize(
    ("size", "scheme", "pages"),
    [
        ("desktop", "light", PAGES),
        ("phone", "dark", PAGES),
        ("desktop", "dark", PAGES[:3]),
        ("phone", "light", PAGES[:3]),
    ],
)
def test_pages_have_no_barriers(
    site_browser: Browser, address: str, size: str, scheme: str, pages: Sequence[str]
) -> None:
    width, height = SIZES[size]
    context = site_browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        base_url=address,
        reduced_motion="reduce",
    )
    with contextlib.closing(context):
        page = watched(context)
        requested: list[str] = []
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith((address, "data:", "blob:")) else requested.append(request.url)
            ),
        )
        found = {}
        for name in pages:
            answer = page.goto(f"/{name}")
            assert answer is not None
            assert answer.ok, name
            page.wait_for_load_state("networkidle")
            found[name] = violations(page, scheme)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than the page"
        assert {name: each for name, each in found.items() if each} == {}
        assert [url for url in requested if not url.startswith((address, "data:", "blob:"))] == []
        assert troubles_of(page) == []


def test_first_page_is_small(site_browser: Browser, address: str) -> None:
    page = site_browser.new_page(base_url=address)
    with contextlib.closing(page):
        sizes: dict[str, int] = {}
        page.on("response", lambda response: sizes.update({response.url: len(gzip.compress(response.body()))}))
        with page.expect_response("**/search.json"):
            page.goto("/index.html")
        page.wait_for_load_state("networkidle")
        text = {url: size for url, size in sizes.items() if not url.endswith((".png", ".svg"))}
        index = text.pop(f"{address}/search.json")
        assert 0 < sum(text.values()) < LARGEST, text
        assert index < LARGEST_INDEX
