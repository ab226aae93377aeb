"""Commands, the dashboard, searches and tests of apps show encrypted jobs, and never fail on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from app_modules import Load
from clients import client_of
from encryption.codecs_of_tests import KEYS, SECRET, aes, everything, hmac, record, served
from lockwork import JobFailed, Lockwork, current_job
from lockwork.app import lockwork
from lockwork.cli.commands import cli
from lockwork.dashboard import app as dashboard
from lockwork.testing import assert_enqueued, enqueued, fake_job, inline, run_all
from lockwork.testing import record as recording
from processes import Started, until


def run(url: str, *words: str) -> Result:
    return CliRunner(env={"LOCKWORK_URL": url, "COLUMNS": "200"}).invoke(cli, words)


def text_of(url: str, *words: str) -> str:
    found = run(url, *words)
    assert found.exit_code == 0, found.exception or found.output
    return found.output


def document(url: str, *words: str) -> Any:
    return json.loads(text_of(url, *words, "--json"))


def fail(card: str) -> None:
    current_job().progress({"card": card})
    current_job().checkpoint("step", card)
    raise ValueError(card)


class Jobs:
    """One encrypted job in each state."""

    def __init__(self, lw: Lockwork) -> None:
        again = lw.task(name="again", retries=1, backoff=3600)(fail)
        self.dead = lw.task(name="fail", retries=0, key="k", tags=["vip"])(fail).enqueue(SECRET)
        self.done = lw.task(name="done")(str.upper).enqueue(SECRET)
        self.retrying = again.enqueue(SECRET)
        self.waiting = again.options(delay="1h").enqueue(SECRET)
        self.done.result(30)
        until(lambda: self.dead.state() == "dead" and self.retrying.attempts() == 1, "both have failed")


@pytest.fixture
def jobs(own_url: str) -> Iterator[Jobs]:
    with served(Lockwork(own_url, codec=aes())) as lw:
        yield Jobs(lw)


def test_commands_show_encrypted_jobs(jobs: Jobs, own_url: str) -> None:
    for words in (
        ["jobs"],
        ["jobs", "--dead"],
        ["job", jobs.dead.id],
        ["job", jobs.done.id],
        ["job", jobs.retrying.id],
        ["dead"],
        ["dead", "groups"],
        ["dead", "show", "-q", "default", jobs.dead.id],
        ["queue", "default"],
        ["status"],
        ["doctor"],
    ):
        found = run(own_url, *words)
        assert found.exit_code in (0, 1), found.exception
        assert found.exception is None or isinstance(found.exception, SystemExit)
        assert SECRET not in found.output
        assert "~old" not in found.output
        assert words[0] in ("queue", "status", "doctor") or words == ["dead", "groups"] or "(encrypted)" in found.output
    shown = text_of(own_url, "job", jobs.dead.id)
    assert "ValueError: (encrypted)" in shown
    assert "checkpoints  step=(encrypted)" in shown
    assert "progress     (encrypted)" in shown
    assert "vip" in shown
    assert "result     (encrypted)" in text_of(own_url, "job", jobs.done.id)


def test_json_of_commands(jobs: Jobs, own_url: str) -> None:
    found = document(own_url, "job", jobs.dead.id)
    assert (found["args"], found["encrypted"], found["progress"]) == (None, True, "(encrypted)")
    assert found["error"] == {"type": "ValueError", "text": "(encrypted)", "traceback": ""}
    rows = document(own_url, "jobs")["jobs"]
    assert len(rows) == 4
    assert all((row["args"], row["encrypted"]) == (None, True) for row in rows)
    (dead,) = document(own_url, "dead")["queues"]["default"]["jobs"]
    assert (dead["args"], dead["encrypted"], dead["problem"]) == (None, True, None)


@pytest.mark.parametrize("filters", [{"arg": SECRET}, {"arg": "card=x"}, {"text": SECRET}, {"arg": "4111"}])
def test_search_does_not_find_encrypted_values(jobs: Jobs, own_url: str, filters: dict[str, str]) -> None:
    with Lockwork(own_url, codec=aes()) as lw:
        page = lw.jobs(**filters)  # type: ignore[arg-type]
        assert (page.jobs, page.undecided) == ([], 0)


def test_search_finds_readable_parts(jobs: Jobs, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        assert {job.id for job in lw.jobs(tag="vip").jobs} == {jobs.dead.id}
        assert {job.id for job in lw.jobs(key="k").jobs} == {jobs.dead.id}
        assert {job.id for job in lw.jobs(error="ValueError").jobs} == {jobs.dead.id, jobs.retrying.id}
        assert {job.id for job in lw.jobs(text="again").jobs} == {jobs.retrying.id, jobs.waiting.id}
        assert len(lw.jobs(text="~old.").jobs) == 4
        data = record(own_url, jobs.waiting.id).partition(b"~old.")[2][4:12].decode()
        assert lw.jobs(text=data).jobs == []


@pytest.mark.parametrize("codec", [None, aes()])
async def test_dashboard_shows_encrypted_jobs(jobs: Jobs, own_url: str, codec: Any) -> None:
    async with Lockwork(own_url, codec=codec) as lw:
        transport = httpx.ASGITransport(dashboard(lw, authorize=lambda _: True))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for path in (
                "/jobs",
                "/dead",
                "/queue/default",
                f"/jobs?q={jobs.dead.id}",
                f"/jobs?q={SECRET}",
                f"/job/{jobs.dead.id}",
                f"/job/{jobs.done.id}",
                f"/job/{jobs.retrying.id}",
                f"/jobs/change?verb=retry&job=default+{jobs.dead.id}",
            ):
                page = await client.get(path)
                assert page.status_code in (200, 303, 400, 404, 405), path
                assert "~old." not in page.text
                assert (
                    SECRET not in page.text.replace(f'value="{SECRET}"', "").replace(f"{SECRET}</b>", "")
                    or "q=" in path
                )
                if path.startswith(("/job/", "/dead")):
                    assert page.status_code == 200
                    assert "(encrypted)" in page.text


def test_signed_jobs_look_like_others(own_url: str) -> None:
    with served(Lockwork(own_url, codec=hmac())) as lw:
        jobs = Jobs(lw)
        found = document(own_url, "job", jobs.dead.id)
        assert (found["args"], found["encrypted"], found["progress"]) == ([SECRET], False, {"card": SECRET})
        assert found["error"]["text"] == SECRET
        assert found["checkpoints"] == {"step": SECRET}
        assert document(own_url, "job", jobs.done.id)["result"] == SECRET.upper()
        assert {job.id for job in lw.jobs(arg=SECRET).jobs} >= {jobs.dead.id, jobs.waiting.id}


def test_damaged_payloads_are_shown(jobs: Jobs, own_url: str) -> None:
    stored = record(own_url, jobs.waiting.id)
    with client_of(own_url) as client:
        for at, damaged in enumerate(
            (stored[:40], stored[:-30] + b'"]', b'1,1,,;["again","~"]', b'1,1,,;["again","x"]')
        ):
            id = f"A{at:015}"
            client.hset(KEYS.jobs, id, damaged)
            client.zadd(KEYS.due, {id: 9_999_999_999_999})
            for words in (["job", id], ["jobs", "--scheduled"]):
                assert run(own_url, *words).exit_code == 0
            with Lockwork(own_url, codec=aes()) as lw:
                assert lw.job(id).inspect().state == "scheduled"
                assert lw.jobs(arg="x").jobs == []


def test_runner_processes_read_and_write_encrypted_values(
    own_url: str, load: Load, work: Callable[..., AbstractContextManager[Started]]
) -> None:
    app: Any = load(own_url, "vault")
    with app.lw, work("vault"):
        done = app.hashed.enqueue(SECRET)
        failed, killed = app.broken.enqueue(SECRET), app.endless.enqueue(SECRET)
        assert done.result(60) == SECRET[::-1]
        assert done.progress() == SECRET
        with pytest.raises(JobFailed, match=SECRET):
            failed.result(60)
        with pytest.raises(JobFailed) as caught:
            killed.result(60)
        assert caught.value.type == "JobTimeout"
        assert "hard_timeout" in caught.value.text or "time" in caught.value.text
        stored = everything(own_url)
        assert SECRET.encode() not in stored
        assert SECRET[::-1].encode() not in stored


def test_enqueue_command_refuses_without_the_key_or_uses_the_codec_of_the_app(
    own_url: str,
    apps: Path,
    load: Load,
    work: Callable[..., AbstractContextManager[Started]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app: Any = load(own_url, "vault")
    monkeypatch.syspath_prepend(str(apps))
    monkeypatch.chdir(apps)
    with app.lw, work("vault"):
        until(lambda: app.lw.apps(), "the app is announced")
        command = ["enqueue", "send", "--args", f'["{SECRET}"]', "--kwargs", '{"times": 2}']
        refused = run(own_url, *command)
        assert refused.exit_code == 1
        said = str(refused.exception)
        assert "jobs of task send in queue mail are encrypted, and this command has no key: pass --app" in said
        assert SECRET.encode() not in everything(own_url)
        id = document(own_url, *command, "--app", "vault:lw")["job"]
        assert app.lw.job(id, "mail").result(60) == SECRET * 2
        assert SECRET.encode() not in everything(own_url)


def test_announcement_says_how_jobs_are_protected(own_url: str) -> None:
    for codec, codecs in ((None, {}), (aes(), {"": "encrypted"}), ({"mail": hmac()}, {"mail": "signed"})):
        with Lockwork(own_url, codec=codec, app_name="shop") as lw:
            lw.task(name="done")(str.upper).options(delay="1h").enqueue("x")
            assert {json.dumps(app.codecs) for app in lw.apps()} >= {json.dumps(codecs)}
        with client_of(own_url) as client:
            stored = b"".join(client.hvals("lw:{lockwork}:apps"))
            assert (b"codecs" in stored) is bool(codecs)
            client.flushdb()


offline = Lockwork("redis://127.0.0.1:1", patience=0, codec=aes())


@offline.task
def paid(card: str, *, amount: int = 0) -> str:
    current_job().progress(card)
    return f"{card} {amount}"


def test_recorded_jobs_are_readable() -> None:
    with recording():
        paid.options(delay="1h").enqueue(SECRET, amount=3)
        paid.enqueue_many([(SECRET,)] * 3)
        flow = offline.flow()
        first: Any = flow.add(paid.call(SECRET))
        flow.add(paid.call(first))
        flow.enqueue()
        assert_enqueued(paid, args=(SECRET,), kwargs={"amount": 3}, delay=3600)
        assert [job.args for job in enqueued(paid)][:4] == [[SECRET]] * 4
        assert SECRET.encode() not in enqueued(paid)[0].record


def test_inline_jobs_return_results() -> None:
    with inline():
        assert paid.enqueue(SECRET, amount=3).result() == f"{SECRET} 3"
        assert paid.enqueue(SECRET).result() == f"{SECRET} 0"


@pytest.mark.usefixtures("only_its_apps")
def test_recorded_jobs_run_on_the_embedded_server() -> None:
    lockwork._apps.add(offline)
    with recording():
        job = paid.enqueue(SECRET, amount=3)
        run_all()
        assert job.result(0) == f"{SECRET} 3"


def test_fake_job_has_plain_checkpoints() -> None:
    with fake_job(checkpoints={"a": SECRET}) as job:
        assert paid.run(SECRET) == f"{SECRET} 0"
        current_job().checkpoint("b", SECRET)
        assert current_job().checkpoints == {"a": SECRET, "b": SECRET}
    assert job.progress == [SECRET]
