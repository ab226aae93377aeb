"""Build the site without a network: copy the pages into one folder, let Zensical build it, and refuse any problem.

Pages link to files outside `docs`, such as Grafana's dashboard: these are copied, too. Problems are lines in which
Zensical complains, links that lead nowhere, and files that a browser would load from another host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COPIES = ROOT / "build" / "docs"
SITE = ROOT / "site"
FROM_ROOT = {"README.md": "index.md", "README.zh-CN.md": "zh-CN.md", "CHANGELOG.md": "changelog.md"}
"""Pages that lie in the project's root, by their names in the site."""
MIN_PAGES = 40
WITHOUT_NETWORK = ["unshare", "--user", "--map-root-user", "--net"]
_UPWARD = re.compile(r"\]\((\.\./[^)#\s]+)")
_DRAWING = re.compile(r"^!\[[^\]]*\]\((drawings/[\w-]+\.svg)\)$", re.MULTILINE)
_COMPLAINT = re.compile(r"warning|error|^\d+ issues?", re.IGNORECASE)
_LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}
"""The attributes from which a browser loads a file."""
_NOT_LOADED = {"canonical", "next", "prev", "alternate"}
"""Relations of `<link>` that load nothing."""


def copy_pages() -> None:
    """Copy all pages, with the files that their links lead to; a drawing leads to itself in full size."""
    shutil.rmtree(COPIES, ignore_errors=True)
    shutil.copytree(DOCS, COPIES, ignore=shutil.ignore_patterns("*.toml", ".*"))
    for page in DOCS.rglob("*.md"):
        copy = COPIES / page.relative_to(DOCS)
        text = _UPWARD.sub(partial(_copied, page.parent), page.read_text())
        copy.write_text(_DRAWING.sub(r"[\g<0>](\1)", text))
    for source, name in FROM_ROOT.items():
        text = (ROOT / source).read_text().replace("](docs/", "](")
        for other, other_name in FROM_ROOT.items():
            text = text.replace(f"]({other})", f"]({other_name})")
        (COPIES / name).write_text(text)


def _copied(folder: Path, link: re.Match[str]) -> str:
    """Return the link for the copy of a page in `folder`: it leads to a copy of the linked file."""
    target = (folder / link[1]).resolve()
    if target.is_relative_to(DOCS):
        return link[0]
    source = target.relative_to(ROOT).as_posix()
    copy = COPIES / FROM_ROOT.get(source, f"files/{source}")
    if source not in FROM_ROOT:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, copy)
    return f"]({os.path.relpath(copy, COPIES / folder.relative_to(DOCS))}"


class BuiltPage(HTMLParser):
    """The anchors, links and loaded files of a page of the site."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag names."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif (name := _LOADED.get(tag)) in values and values.get("rel", "") not in _NOT_LOADED:
            self.loaded.append(values[str(name)])


def problems(site: Path) -> Iterator[str]:
    """Yield the links and files of the site's pages that do not exist, or that are loaded from another host."""
    pages = {path: BuiltPage(path) for path in sorted(site.rglob("*.html"))}
    if len(pages) < MIN_PAGES:
        yield f"the site has {len(pages)} pages, and should have at least {MIN_PAGES}"
    for path, page in pages.items():
        name = path.relative_to(site)
        yield from (f"{name}: loads {each}" for each in page.loaded if urlsplit(each).netloc)
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            # page 404 is shown at any address, so its links begin at the root
            start = site if parts.path.startswith("/") else path.parent
            target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name}: {link} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link} names no place on that page"


def main() -> None:
    copy_pages()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean"]
    if _runs([*WITHOUT_NETWORK, "true"]):
        command = [*WITHOUT_NETWORK, *command]
    else:
        print("this machine allows no network namespace: the build could use the network", file=sys.stderr)
    built = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if built.returncode or any(_COMPLAINT.search(line) for line in built.stdout.splitlines()):
        raise SystemExit(f"{built.stdout}\nthe site has problems: see the lines above")
    if found := list(problems(SITE)):
        raise SystemExit("\n".join([*found, "the site has problems: see the lines above"]))
    print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}/")


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    main()
