"""Workers without the start of an interpreter: a process that has imported Lockwork forks, and each copy is a worker.

A copy is a child of the process that asked for it (CLONE_PARENT). It has the arguments, environment, folder and
descriptors of a start by `subprocess`, and ends as an interpreter ends. One thing differs from a real start: Lockwork
is imported already. Such a worker starts its worker processes in the same way; runners are real starts.
LOCKWORK_TEST_START=exec makes every start a real one.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import functools
import gc
import inspect
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

NAME = "test-zygote"
"""Name of the forking process in /proc/PID/comm."""

_CLONE_PARENT = 0x8000
_PR_SET_NAME = 15
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_FORKS = sys.platform == "linux" and _SYS_CLONE is not None and os.environ.get("LOCKWORK_TEST_START") != "exec"
_LONGEST = 1 << 20
_HIGH = 500
"""Received descriptors move here before they get their numbers."""
_PARAMETERS = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class Zygote:
    """The forking process, seen from its parent."""

    def __init__(self, requests: socket.socket) -> None:
        self.requests = requests
        self._lock = threading.Lock()

    def start(self, request: Mapping[str, object], descriptors: list[int]) -> int:
        """Return the process id of a new copy."""
        with self._lock:
            socket.send_fds(self.requests, [json.dumps(request).encode()], descriptors)
            return int(self.requests.recv(20))


class _Popen(subprocess.Popen[bytes]):
    """`subprocess.Popen` of `python -m lockwork...`, which the zygote starts."""

    zygote: ClassVar[Zygote]

    def _execute_child(self, *arguments: object) -> None:  # the constructor calls it
        given: dict[str, Any] = dict(zip(_PARAMETERS, arguments, strict=False))
        pipes = (given[name] for name in ("p2cread", "c2pwrite", "errwrite"))
        standard = [number if pipe == -1 else pipe for number, pipe in enumerate(pipes)]
        request = {
            "arguments": given["args"][2:],
            "folder": os.fspath(given["cwd"] or Path.cwd()),
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "group": given["process_group"],
            "numbers": [0, 1, 2, *given["pass_fds"]],
        }
        self.pid = self.zygote.start(request, [*standard, *given["pass_fds"]])
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]


def popen(command: list[str], *, env: Mapping[str, str], **options: Any) -> subprocess.Popen[bytes]:
    """Start `python -m lockwork ...`: as a copy, or for real if `env` changes how the interpreter runs."""
    changed = {name for name in {*env, *os.environ} if env.get(name) != os.environ.get(name)} - {"PYTHONUNBUFFERED"}
    if not _FORKS or any(name.startswith("PYTHON") for name in changed):
        return subprocess.Popen(command, env=env, **options)
    start()
    return _Popen(command, env=env, **options)


@functools.cache
def start() -> None:
    """Start the zygote of this process."""
    if not _FORKS:
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment
        )
    _Popen.zygote, owner = Zygote(ours), os.getpid()

    def end() -> None:
        if os.getpid() == owner:
            ours.close()
            process.wait()

    atexit.register(end)


def _serve(requests: socket.socket) -> Callable[[], None]:
    """Make copies until the other end is closed. Only in a copy, return the program to run."""
    os.setpgid(0, 0)  # only the copies handle signals from the terminal
    _call("prctl", _PR_SET_NAME, NAME.encode())
    gc.collect()
    gc.freeze()
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _LONGEST, 16)
        if not data:
            os._exit(0)
        copy = _clone()
        if copy == 0:
            return _become(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(str(copy).encode())


def _clone() -> int:
    """Fork, and let the copy be a child of this process's parent."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    copy = _call("syscall", _SYS_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if copy == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return copy


def _call(name: str, *arguments: object) -> int:
    # PyDLL keeps the interpreter lock, which a forked copy needs to continue
    return int(getattr(ctypes.PyDLL(None), name)(*arguments))


def _become(request: dict[str, Any], descriptors: list[int]) -> Callable[[], None]:
    _call("prctl", _PR_SET_NAME, b"python")
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _HIGH) for descriptor in descriptors]
    os.closerange(3, _HIGH)
    for descriptor, number in zip(high, request["numbers"], strict=True):
        os.dup2(descriptor, number)
    os.closerange(_HIGH, max(high) + 1)
    os.setpgid(0, os.getpgid(os.getppid()) if request["group"] == -1 else request["group"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    program, *sys.argv[1:] = request["arguments"]
    sys.orig_argv = [sys.executable, "-m", *request["arguments"]]
    name, run = _PROGRAMS[program]
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__spec__ = find_spec(name)
    assert module.__spec__ is not None
    assert module.__spec__.origin is not None
    module.__file__ = sys.argv[0] = module.__spec__.origin
    return run


if __name__ == "__main__":
    import lockwork.cli.worker
    import lockwork.worker.process.runner
    from lockwork.worker.process import main
    from lockwork.worker.supervisor import child_process

    _PROGRAMS: dict[str, tuple[str, Callable[[], None]]] = {
        "lockwork": ("lockwork.__main__", lockwork.cli.main),
        "lockwork.worker.process.main": ("lockwork.worker.process.main", main.main),
    }
    program = _serve(socket.socket(fileno=int(sys.argv[1])))
    if program is lockwork.cli.main:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _call("prctl", _PR_SET_NAME, NAME.encode())  # from its first moment on, this is no child that a test looks for
        if os.fork() == 0:
            ours.close()
            program = _serve(theirs)
        else:
            theirs.close()
            _call("prctl", _PR_SET_NAME, b"python")
            _Popen.zygote = Zygote(ours)
            child_process.subprocess = SimpleNamespace(Popen=_Popen, PIPE=subprocess.PIPE)  # type: ignore[assignment,attr-defined]
    program()
