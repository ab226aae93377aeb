"""Build a release into dist/, check it, and try it: `make release`.

The wheel and the source distribution are each installed into an empty environment of every Python at hand, in which the
README's first program runs with a worker. With --rehearse it builds and tries also what must not be published yet.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lockwork.version import RELEASED, VERSION

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PLACEHOLDER = "lockwork.invalid"
"""Stands where the project's address and contacts belong."""
TEXTS = ("*.md", "*.toml", "docs/**/*.md", ".github/**/*.*", "deploy/**/*.y*ml")
"""The files that may have it."""


def reasons() -> Iterator[str]:
    """Yield the reasons not to publish this commit."""
    texts = [each for pattern in TEXTS for each in sorted(ROOT.glob(pattern)) if each.is_file()]
    unfinished = [each.relative_to(ROOT).as_posix() for each in texts if PLACEHOLDER in each.read_text()]
    if unfinished:
        yield f"replace {PLACEHOLDER} by the real address in {', '.join(unfinished)}"
    if not RELEASED:
        yield "set RELEASED in src/lockwork/version.py, and run scripts/install_commands.py"
    dated = rf"^## {re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(dated, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE):
        yield f"give {VERSION} its date in CHANGELOG.md: ## {VERSION} (YYYY-MM-DD)"
    status = [shutil.which("git") or "git", "status", "--porcelain"]
    if subprocess.run(status, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False).stdout:
        yield "commit all changes"


def build() -> list[Path]:
    """Build the wheel and the source distribution, and check what is in them."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--quiet", "--outdir", DIST, ROOT)
    packages = sorted(DIST.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *packages)
    run(Path(sys.executable).with_name("check-wheel-contents"), *DIST.glob("*.whl"))
    return packages


def program() -> str:
    """Return the README's first program."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found
    return found[1]


def pythons() -> Iterator[str]:
    """Yield the interpreters of this machine that Lockwork supports."""
    for version in VERSIONS:
        # where pyenv is used, what the path finds may be a stand-in that runs nothing
        own = next(map(str, Path.home().glob(f".pyenv/versions/{version}*/bin/python")), None)
        python = own or shutil.which(f"python{version}")
        if python is not None:
            yield python


def attempt(python: str, package: Path) -> None:
    """Install the package into an empty environment, and run the README's first program with a worker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "venv")
        bin = folder / "venv" / "bin"
        run(bin / "python", "-m", "pip", "install", "--quiet", package)
        (folder / "shop.py").write_text(program())
        environment = {**os.environ, "LOCKWORK_HOME": str(folder / "home")}
        with subprocess.Popen([bin / "lockwork", "worker", "shop:lw"], cwd=folder, env=environment) as worker:
            try:
                shown = subprocess.run(
                    [bin / "python", "shop.py"],
                    cwd=folder,
                    env=environment,
                    text=True,
                    stdout=subprocess.PIPE,
                    check=False,
                ).stdout
            finally:
                worker.terminate()
        if not re.fullmatch(r"changing the catalogue under fence \d+\norder of ada StockStatus\(.*\)\n", shown):
            raise SystemExit(f"the README's program printed something else:\n{shown}")


def run(*command: str | Path) -> None:
    """Run a command; a failed one ends the release."""
    status = subprocess.run(command, check=False).returncode
    if status:
        raise SystemExit(f"failed with status {status}: {' '.join(map(str, command))}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a release into dist/, check it, and try it.")
    parser.add_argument("--rehearse", action="store_true", help="go on where a release would be refused")
    rehearse = parser.parse_args().rehearse
    refused = list(reasons())
    if refused:
        print("This commit cannot be published:", *refused, sep="\n- ", file=sys.stderr)
        if not rehearse:
            raise SystemExit(1)
    packages = build()
    for python in pythons():
        for package in packages:
            print(f"trying {package.name} with {python} ...", flush=True)
            attempt(python, package)
    print(f"{', '.join(package.name for package in packages)}: {'rehearsed' if refused else 'ready to be published'}")


if __name__ == "__main__":
    main()
