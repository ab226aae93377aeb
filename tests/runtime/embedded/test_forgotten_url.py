"""Without a URL, LOCKWORK_EMBEDDED=off is an error; otherwise commands, workers and errors name the embedded server."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockwork import Lockwork, ResultTimeout
from lockwork.errors import ConfigError, JobCancelled
from lockwork.testing import record, server
from lockwork.testing.servers import stop_server
from processes import started, until, worker
from runtime.embedded.users import MARKS
from terminals import typist

pytestmark = MARKS
NO_SERVER = (
    "no server is configured, and LOCKWORK_EMBEDDED=off forbids the embedded server: set LOCKWORK_URL to the URL of "
    "your server, such as redis://host:6379/0, or pass url"
)
WARNING = "jobs of other machines, containers and users never reach it: set LOCKWORK_URL, or LOCKWORK_EMBEDDED=on"
TASKS = "from lockwork import Lockwork\nlw = Lockwork()\n@lw.task\ndef add(a): ...\n"


@pytest.fixture(autouse=True)
def no_url(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCKWORK_HOME", str(home))
    monkeypatch.delenv("LOCKWORK_URL", raising=False)
    monkeypatch.delenv("LOCKWORK_EMBEDDED", raising=False)
    return home


@pytest.fixture
def described(home: Path) -> str:
    return f"an embedded server (LOCKWORK_URL is not set) at unix://{home}/server.sock"


@pytest.fixture
def app(home: Path) -> Iterator[Lockwork]:
    with Lockwork() as lw:
        yield lw


@pytest.mark.parametrize("value", ["off", "OFF", "false", "0", "no", " off "])
async def test_forbidden_embedded_server_is_not_started(
    home: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("LOCKWORK_EMBEDDED", value)
    with Lockwork() as lw, pytest.raises(ConfigError) as refused:
        lw.queues()
    assert str(refused.value) == NO_SERVER
    async with Lockwork() as lw:
        with pytest.raises(ConfigError, match="set LOCKWORK_URL"):
            await lw.aqueues()
    assert not home.exists()


@pytest.mark.parametrize("value", ["of", "redis://localhost", "2"])
def test_wrong_value_is_one_clear_error(home: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LOCKWORK_EMBEDDED", value)
    with Lockwork() as lw, pytest.raises(ConfigError, match=f"LOCKWORK_EMBEDDED must be on or off, not '{value}'"):
        lw.queues()
    assert not home.exists()


@pytest.mark.parametrize("value", ["", "on", "True", "1"])
def test_allowed_embedded_server_is_started(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LOCKWORK_EMBEDDED", value)
    with Lockwork() as lw:
        assert lw.queues() == []


def test_url_takes_precedence(monkeypatch: pytest.MonkeyPatch, own_url: str) -> None:
    monkeypatch.setenv("LOCKWORK_EMBEDDED", "off")
    with Lockwork(own_url) as lw:
        lw.queues()
        assert not lw.runtime.embedded
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    with Lockwork() as lw:
        lw.queues()


def test_tests_of_an_image_have_their_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image sets the variable, and its tests run in it."""
    monkeypatch.setenv("LOCKWORK_EMBEDDED", "off")
    lw = Lockwork()

    @lw.task
    def add(a: int) -> None: ...

    with record() as recorded:
        add.enqueue(1)
        assert len(recorded.jobs) == 1
    try:
        with server():
            assert add.enqueue(1).state() == "ready"
    finally:
        stop_server()


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["doctor"],
        ["jobs"],
        ["worker", "shop:lw"],
        ["worker", "shop:lw", "--burst"],
        ["dashboard", "--port", "0"],
        ["dashboard", "shop:lw", "--port", "0"],
        ["metrics", "--port", "0"],
        ["run", "--lock", "x", "true"],
    ],
    ids=" ".join,
)
def test_commands_fail_with_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setenv("LOCKWORK_EMBEDDED", "off")
    (tmp_path / "shop.py").write_text(TASKS)
    with started([sys.executable, "-m", "lockwork", *words], folder=tmp_path) as process:
        assert process.wait() != 0
        assert process.errors.splitlines()[-1] == f"lockwork: {NO_SERVER}"
        assert "Traceback" not in process.errors


def test_worker_without_a_terminal_warns_once(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TASKS)
    with worker("shop:lw", "--processes", "2", url="", folder=tmp_path) as process:
        until(lambda: process.errors.count(" works on ") == 2, "both processes fetch jobs")
        process.process.terminate()
        assert process.wait() == 0
        assert process.errors.count(WARNING) == 1
        assert process.errors.count(" WARNING ") == 1


@pytest.mark.parametrize(("options", "value"), [((), "on"), (("--reload",), "")])
def test_intended_embedded_server_is_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], value: str
) -> None:
    monkeypatch.setenv("LOCKWORK_EMBEDDED", value)
    (tmp_path / "shop.py").write_text(TASKS)
    with worker("shop:lw", *options, url="", folder=tmp_path) as process:
        until(lambda: " works on " in process.errors, "it fetches jobs")
        process.process.terminate()
        process.wait()
        assert "an embedded server" in process.errors
        assert WARNING not in process.errors


def test_worker_at_a_terminal_does_not_warn(home: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TASKS)
    environment = {"LOCKWORK_HOME": str(home)}
    command = [sys.executable, "-m", "lockwork", "worker", "shop:lw", "--burst"]
    with typist(command, tmp_path, "", columns=400, environment=environment) as person:
        assert WARNING not in person.rest()


def test_result_timeout_names_the_embedded_server(app: Lockwork, described: str) -> None:
    @app.task
    def add(a: int) -> None: ...

    job = add.enqueue(1)
    with pytest.raises(ResultTimeout) as late:
        job.result(0)
    state = "it is ready, and no worker serves the queue"
    assert str(late.value) == f"job {job.id} in queue 'default' has not ended yet: {state} on {described}"


def test_result_timeout_of_a_flow_names_the_embedded_server(app: Lockwork, described: str) -> None:
    @app.task
    def add(a: int) -> None: ...

    flow = app.flow()
    flow.add(add.call(1))
    run = flow.enqueue()
    with pytest.raises(ResultTimeout) as late:
        run.result(0)
    state = "0 of its 1 jobs have, and no worker serves queue 'default'"
    assert str(late.value).endswith(f" has not ended yet: {state} on {described}")


def test_wait_without_a_timeout_names_the_embedded_server(
    app: Lockwork, described: str, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    def add(a: int) -> None: ...

    job = add.enqueue(1)

    def cancel() -> None:
        until(lambda: caplog.messages, "it warns")
        job.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(JobCancelled):
        job.result()
    canceller.join()
    what = f"result() of job {job.id} waits without a timeout, and no worker serves queue 'default' on {described}"
    assert caplog.messages == [f"{what}: start a worker, or pass a timeout"]


def command(folder: Path, *words: str) -> tuple[str, str, int]:
    """Run a command; return its output, its errors and its exit status."""
    with started([sys.executable, "-m", "lockwork", *words], folder=folder, url="") as process:
        assert process.process.stdout is not None
        text = process.process.stdout.read().decode()
        return text, process.errors, process.wait()


def test_commands_name_an_embedded_server_without_workers(tmp_path: Path, described: str) -> None:
    (tmp_path / "shop.py").write_text(TASKS)
    for words in (["status"], ["doctor"]):
        assert f"This is {described}, and it has no worker." in " ".join(command(tmp_path, *words)[0].split())
        found = json.loads(command(tmp_path, *words, "--json")[0])["findings"]
        assert [(each["level"], each["subject"]) for each in found] == [("info", "server")]
    for words in (["job", "P7WSeQgt50EbKWewfC"], ["flows", "show", "P7WSeQgt50EbKWewfC"]):
        text, errors, status = command(tmp_path, *words)
        assert f" P7WSeQgt50EbKWewfC exists on {described}" in errors, (text, errors)
        assert status == 1


def test_commands_do_not_name_an_embedded_server_with_workers(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TASKS)
    with worker("shop:lw", url="", folder=tmp_path) as process:
        until(lambda: " works on " in process.errors, "it fetches jobs")
        for words in (["status"], ["doctor"]):
            until(lambda words=words: "no worker" not in command(tmp_path, *words)[0], "it is announced")  # type: ignore[misc]
            found = json.loads(command(tmp_path, *words, "--json")[0])["findings"]
            assert [each["fix"] for each in found] == ["Check its --queues, and the URL and prefix of the producers."]


def test_commands_that_serve_name_the_embedded_server(tmp_path: Path, described: str) -> None:
    for words in (["dashboard", "--port", "0"], ["metrics", "--port", "0"]):
        with started([sys.executable, "-m", "lockwork", *words], folder=tmp_path, url="") as process:
            until(lambda process=process: process.errors, "it has started")  # type: ignore[misc]
            assert process.errors.startswith(f"lockwork: this is {described}; for another server, set LOCKWORK_URL")
