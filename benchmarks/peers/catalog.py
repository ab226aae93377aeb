"""The queues to compare: how a worker of each starts, and what it promises when it is killed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_APPS = "benchmarks.peers.apps"
_HERE = Path(__file__).parent
_BIN = Path(sys.executable).parent
NODE = _BIN.parent / "node"
"""Folder in which npm has installed BullMQ."""
_CONCURRENCY = "100"
"""Jobs at once in a process of a queue that runs coroutines."""


@dataclass(frozen=True)
class Peer:
    """A queue."""

    name: str
    module: str
    """Module of its app in `benchmarks.peers.apps`."""
    command: Callable[[int], list[str]]
    """Returns the command of a worker with this number of processes."""
    shown: str
    """The kind of worker."""
    kill: str
    """What happens to the jobs that a worker runs when it is killed."""
    own_processes: bool = True
    """Whether one command starts all processes; otherwise each process is a command."""
    bin: Path = _BIN
    """Folder of its programs: some queues need another version of redis-py."""
    jobs: Mapping[str, int] = field(default_factory=lambda: {"noop": 5_000, "io": 3_000, "cpu": 200})
    """Jobs to drain, by kind."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Other names of its tasks, by kind."""
    send: tuple[str, ...] = ()
    """The command that enqueues, if it is not `benchmarks.peers.sender`."""

    @property
    def version(self) -> str:
        """The installed version, or an empty string."""
        return _version(self.module, self.bin)

    def worker(self, processes: int) -> list[str]:
        """Return the command of a worker."""
        program, *words = self.command(processes if self.own_processes else 1)
        return [_program(program, self.bin), *words]

    def sender(self, kind: str, count: int, rate: float) -> list[str]:
        """Return the command that enqueues jobs, all at once if `rate` is 0."""
        program, *words = self.send or ("python", "-m", "benchmarks.peers.sender", self.module)
        return [_program(program, self.bin), *words, self.kinds.get(kind, kind), str(count), str(rate)]


def _program(name: str, folder: Path) -> str:
    """Return the path of a program, in the environment's folder or elsewhere."""
    return str(folder / name) if (folder / name).exists() else shutil.which(name) or name


def _version(module: str, folder: Path) -> str:
    """Return the version of a queue, or an empty string if it is not installed."""
    if module == "bullmq":
        file = NODE / "node_modules/bullmq/package.json"
        return str(json.loads(file.read_text())["version"]) if file.exists() and shutil.which("node") else ""
    if module == "asynq":
        needs = re.search(r"hibiken/asynq v(\S+)", (_HERE / "asynq/go.mod").read_text())
        return needs[1] if needs and (folder / "asynq-peer").exists() else ""
    if module == "sidekiq":
        found = shutil.which("sidekiq")
        return subprocess.check_output([found, "--version"], text=True).split()[-1] if found else ""
    package = {"docket_app": "pydocket"}.get(module, module.removesuffix("_app"))
    folders = sorted(folder.parent.glob(f"lib/python*/site-packages/{package}-*.dist-info"))
    return folders[-1].name.removesuffix(".dist-info").rpartition("-")[2] if folders else ""


def _lockwork(processes: int) -> list[str]:
    app = f"{_APPS}.lockwork_app:lw"
    return ["lockwork", "worker", app, "--processes", str(processes), "--concurrency", _CONCURRENCY]


def _celery(processes: int) -> list[str]:
    pool = ["--pool", "solo"] if processes == 1 else ["--pool", "prefork", "--concurrency", str(processes)]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return ["celery", "-A", f"{_APPS}.celery_app:app", "worker", *pool, *quiet]


def _huey(processes: int) -> list[str]:
    workers = ["--workers", "8"] if processes == 1 else ["--workers", str(processes), "--worker-type", "process"]
    return ["huey_consumer", f"{_APPS}.huey_app.app", *workers, "--delay", "0.01", "--max-delay", "0.01"]


def _rq(processes: int) -> list[str]:
    if processes == 1:
        return ["rq", "worker", "--worker-class", "rq.worker.SimpleWorker", "--quiet"]
    return ["rq", "worker-pool", "--num-workers", str(processes), "--worker-class", "rq.worker.SimpleWorker", "--quiet"]


def _dramatiq(processes: int) -> list[str]:
    return ["dramatiq", f"{_APPS}.dramatiq_app:broker", "--processes", str(processes), "--threads", "8"]


def _taskiq(processes: int) -> list[str]:
    return ["taskiq", "worker", f"{_APPS}.taskiq_app:broker", "--workers", str(processes)]


def _own(queue: str) -> Path:
    """Return the folder of the programs of a queue that has its own virtual environment."""
    return _BIN.parent / queue / "bin"


def _saq(processes: int) -> list[str]:
    return ["saq", f"{_APPS}.saq_app.settings", "--workers", str(processes), "--quiet"]


def _streaq(processes: int) -> list[str]:
    return ["streaq", "run", f"{_APPS}.streaq_app:worker", "--workers", str(processes)]


def _procrastinate(_processes: int) -> list[str]:
    app = f"{_APPS}.procrastinate_app.app"
    return ["procrastinate", "--app", app, "worker", "--concurrency", _CONCURRENCY]


def _docket(_processes: int) -> list[str]:
    return ["docket", "worker", "--docket", "peers", "--tasks", f"{_APPS}.docket_app:tasks", "--concurrency",
            _CONCURRENCY, "--logging-level", "WARNING"]  # fmt: skip


_MANY = {"noop": 200_000, "io": 50_000, "cpu": 300}
_FEW = {"noop": 2_000, "io": 2_000, "cpu": 200}
_BULLMQ, _SIDEKIQ = str(_HERE / "apps/bullmq.cjs"), str(_HERE / "apps/sidekiq.rb")

PEERS = (
    Peer("lockwork", "lockwork_app", _lockwork, "async def", "run again after the lease", jobs=_MANY),
    Peer(
        "lockwork, def",
        "lockwork_app",
        _lockwork,
        "threads",
        "run again after the lease",
        jobs=_MANY,
        kinds={"noop": "noop_def", "io": "io_def"},
    ),
    Peer("celery", "celery_app", _celery, "solo, prefork", "run again after an hour"),
    Peer("rq", "rq_app", _rq, "no fork for each job", "fail; retries are an option", jobs=_FEW),
    Peer("dramatiq", "dramatiq_app", _dramatiq, "8 threads", "run again when the heartbeat is missing"),
    Peer("huey", "huey_app", _huey, "8 threads", "are lost"),
    Peer("taskiq", "taskiq_app", _taskiq, "async def, streams", "run again after 10 minutes"),
    Peer("saq", "saq_app", _saq, "async def", "run again if they have retries", bin=_own("saq")),
    Peer(
        "arq",
        "arq_app",
        lambda _: ["arq", f"{_APPS}.arq_app.Settings"],
        "async def",
        "run again after their time-out",
        own_processes=False,
        bin=_own("arq"),
    ),
    Peer("streaq", "streaq_app", _streaq, "async def, streams", "run again after a minute"),
    Peer("docket", "docket_app", _docket, "async def, streams", "run again after 5 minutes", own_processes=False),
    Peer(
        "procrastinate",
        "procrastinate_app",
        _procrastinate,
        "async def, PostgreSQL",
        "stay until somebody retries them",
        own_processes=False,
    ),
    Peer(
        "bullmq",
        "bullmq",
        lambda _: ["node", _BULLMQ, "work"],
        "Node",
        "run again after 30 s",
        own_processes=False,
        send=("node", _BULLMQ, "send"),
    ),
    Peer(
        "asynq",
        "asynq",
        lambda _: ["asynq-peer", "work"],
        "Go",
        "run again after 30 s",
        own_processes=False,
        send=("asynq-peer", "send"),
    ),
    Peer(
        "sidekiq",
        "sidekiq",
        lambda _: ["sidekiq", "-q", "default", "-c", "10", "-r", _SIDEKIQ],
        "Ruby, 10 threads",
        "are lost",
        own_processes=False,
        send=("ruby", _SIDEKIQ, "send"),
    ),
)
