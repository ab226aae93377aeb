"""Processes without the start of an interpreter: a process that has imported Lockwork forks, a copy is a program.

A program is `python -m lockwork`, `python -c CODE` or `python FILE`. A copy is a child of the process that asked for it
(CLONE_PARENT). It has the arguments, environment, folder and descriptors of a start by `subprocess`, and ends as an
interpreter ends. One thing differs from a real start: Lockwork is imported already, and the modules in ZYGOTE_IMPORTS.
A copied worker starts its worker processes in the same way, and these start their runners. LOCKWORK_TEST_START=exec
makes every start a real one.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import inspect
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import redis.utils

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
_REAL = frozenset({"preexec_fn", "executable", "shell", "start_new_session"})
"""Options that need a real start."""
_FIXED = ("PYTHON", "LC_", "LANG", "LD_")
"""Prefixes of variables that Python reads only at its start. A copy would ignore them."""
_SET_LATER = ("PYTHONPATH", "PYTHONUNBUFFERED")
"""Such variables that a copy can have for itself; it writes nothing late."""
IMPORTS = "ZYGOTE_IMPORTS"
"""Variable: names of modules, separated by spaces. A zygote with it imports them before it makes copies."""
_MODES = ("PYTHONDEVMODE", "PYTHONWARNINGS", IMPORTS)
"""Variables that a zygote can be started with."""
_MODES_OF_EXIT = {"PYTHONDEVMODE", "PYTHONWARNINGS"}
"""Variables with which a copy clears all modules at its end, because it may warn of objects in them."""
_NEEDED = {"__main__", "builtins", "sys"}
"""Modules that the interpreter itself clears at its end."""
_inherited: dict[str, ModuleType] = {}
"""Modules of the zygote, which its copies inherit."""


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

    def popen(self, command: list[str], *, terminal: int | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start a copy as `subprocess.Popen` starts a program, perhaps at a terminal."""
        return _Popen(self, terminal, command, **options)


class _Popen(subprocess.Popen[bytes]):
    """`subprocess.Popen` of a program that a zygote starts."""

    def __init__(self, zygote: Zygote, terminal: int | None, command: list[str], **options: Any) -> None:
        self._zygote, self._terminal = zygote, terminal
        super().__init__(command, **options)

    def _execute_child(self, *arguments: object) -> None:  # the constructor calls it
        given: dict[str, Any] = dict(zip(_PARAMETERS, arguments, strict=False))
        pipes = (given[name] for name in ("p2cread", "c2pwrite", "errwrite"))
        standard = [number if pipe == -1 else pipe for number, pipe in enumerate(pipes)]
        passed = list(given["pass_fds"])
        request = {
            "arguments": list(map(os.fspath, given["args"][1:])),
            "folder": os.fspath(given["cwd"] or Path.cwd()),
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "group": given["process_group"],
            "terminal": self._terminal is not None,
            "numbers": [0, 1, 2, *passed],
        }
        if self._terminal is not None:
            standard = [self._terminal] * 3
        self.pid = self._zygote.start(request, [*standard, *passed])
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]


def remember_version_of_redis() -> None:
    """Read the version of redis-py once: it reads its metadata for each connection, which takes half a millisecond."""
    redis.utils.get_lib_version = functools.cache(redis.utils.get_lib_version)


def popen(command: list[str], *, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program: as a copy, or else with `subprocess`."""
    environment = os.environ if env is None else env
    if _REAL & options.keys() or not can_copy(command, environment, options.get("cwd")):
        return cast("subprocess.Popen[bytes]", subprocess.Popen(command, env=env, **options))
    modes = tuple((name, environment[name]) for name in _MODES if name in environment)
    return start(modes).popen(command, env=environment, **options)


def run(
    command: list[str], *, timeout: float, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program as `popen` starts it, and return its output."""
    with popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def can_copy(command: list[str], environment: Mapping[str, str], folder: Path | str | None) -> bool:
    """Return True if a copy runs the command as a new interpreter does."""
    changed = {name for name in {*environment, *os.environ} if environment.get(name) != os.environ.get(name)}
    if not _FORKS or command[0] != sys.executable or any(map(_fixed, changed)):
        return False
    match command[1:]:
        case ["-c", _, *_] | ["-m", "lockwork", *_]:
            return True
        case [script, *_]:
            return script.endswith(".py") and Path(folder or ".", script).is_file()
    return False


def _fixed(variable: str) -> bool:
    return variable.startswith(_FIXED) and variable not in {*_MODES, *_SET_LATER}


def start(modes: tuple[tuple[str, str], ...] = ()) -> Zygote:
    """Return the zygote of this process with these variables; start it at the first call."""
    return _started(modes)


@functools.cache
def _started(modes: tuple[tuple[str, str], ...]) -> Zygote:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **dict(modes)}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment
        )
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:
            ours.close()
            process.wait()

    atexit.register(end)
    return Zygote(ours)


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
            requests.detach()
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
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    else:
        os.setpgid(0, os.getpgid(os.getppid()) if request["group"] == -1 else request["group"])
    os.chdir(request["folder"])
    _search(request["environment"].get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", ""))
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    module = sys.modules["__main__"] = ModuleType("__main__")
    sys.orig_argv = [sys.executable, *request["arguments"]]
    match request["arguments"]:
        case ["-m", name, *arguments]:
            sys.path[0] = request["folder"]
            sys.argv[1:] = arguments
            return _module(module, name)
        case ["-c", code, *arguments]:
            sys.path[0] = ""
            sys.argv[:] = ["-c", *arguments]
            return functools.partial(_run, "PyRun_SimpleStringFlags", code.encode(), None)
        case [script, *arguments]:
            sys.path[0] = str(Path(script).resolve().parent)
            sys.argv[:] = [script, *arguments]
            return functools.partial(_run_file, script)
    raise AssertionError(request)


def _search(path: str, before: str) -> None:
    """Replace the folders of PYTHONPATH, which follow the first entry of `sys.path`."""
    if path != before:
        folders = {str(Path(folder).absolute()) for folder in before.split(os.pathsep) if folder}
        rest = [entry for entry in sys.path[1:] if entry not in folders]
        sys.path[1:] = [str(Path(folder).absolute()) for folder in path.split(os.pathsep) if folder] + rest


def _module(main: ModuleType, name: str) -> Callable[[], None]:
    origin, run = _PROGRAMS[name]
    main.__spec__ = find_spec(origin)
    assert main.__spec__ is not None
    assert main.__spec__.origin is not None
    main.__file__ = sys.argv[0] = main.__spec__.origin
    return run


def _run_file(script: str) -> None:
    opened = ctypes.PyDLL(None).fopen
    opened.restype = ctypes.c_void_p
    _run("PyRun_SimpleFileExFlags", ctypes.c_void_p(opened(script.encode(), b"rb")), script.encode(), 1, None)


def _run(function: str, *arguments: object) -> None:
    """Run a program in `__main__` as the interpreter does, so that tracebacks and the exit status are the same."""
    if getattr(ctypes.pythonapi, function)(*arguments) and sys.last_type is not KeyboardInterrupt:
        sys.exit(1)  # after Ctrl-C, the interpreter ends itself with the signal


def _fork(programs: SimpleNamespace) -> Callable[[], None] | None:
    """Let this process start copies in place of `programs.Popen`. Return the program of such a copy, or else None."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _call("prctl", _PR_SET_NAME, NAME.encode())  # from its first moment on, this is no child that a test looks for
    if os.fork() == 0:
        ours.close()
        return _serve(theirs)
    theirs.close()
    _call("prctl", _PR_SET_NAME, b"python")
    atexit.register(ours.close)
    programs.Popen = Zygote(ours).popen
    return None


def _leave_modules() -> None:
    """Let a copy end without its hundreds of inherited modules: to clear them takes six times as long as all else.

    Only modules that the program itself has imported are cleared, with their objects.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_inherited))
    for name in _inherited.keys() - _NEEDED:
        sys.modules.pop(name, None)


if __name__ == "__main__":
    if not _MODES_OF_EXIT & os.environ.keys():
        atexit.register(_leave_modules)  # before Lockwork registers functions, so it is called after them

    import lockwork.cli
    from lockwork.cli import commands
    from lockwork.worker.execution import runner_handle
    from lockwork.worker.process import main, runner
    from lockwork.worker.supervisor import child_process

    needed = ("async_driver", "cluster", "endpoint", "engine", "sentinel", "sync_driver")
    for name in (*(f"runtime.{name}" for name in needed), *(f"cli.{name}" for name in commands._COMMANDS)):
        importlib.import_module(f"lockwork.{name}")
    for name in os.environ.get(IMPORTS, "").split():
        importlib.import_module(name)

    _PROGRAMS: dict[str, tuple[str, Callable[[], None]]] = {
        "lockwork": ("lockwork.__main__", lockwork.cli.main),
        "lockwork.worker.process.main": ("lockwork.worker.process.main", main.main),
        "lockwork.worker.process.runner": ("lockwork.worker.process.runner", runner.main),
    }
    remember_version_of_redis()
    _inherited.update(sys.modules)
    program = _serve(socket.socket(fileno=int(sys.argv[1])))
    while True:
        if program is main.main:
            starts: ModuleType = runner_handle
        elif "worker" in sys.argv[1:3]:
            starts = child_process
        else:
            break
        programs = SimpleNamespace(**vars(subprocess))
        starts.__dict__["subprocess"] = programs
        copy = _fork(programs)
        if copy is None:
            break
        program = copy
    program()
