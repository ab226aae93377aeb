"""The pytest plugin: fixtures in runs of pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOP = """
    from lockwork import Lockwork, current_job
    lw = Lockwork("redis://127.0.0.1:1", patience=0)

    @lw.task(queue="mail")
    def send(user: int) -> str:
        current_job().progress(user)
        return f"mail {user}"

    @lw.task
    async def pay(order: int) -> int:
        send.options(delay="1h").enqueue(order) if False else await send.options(delay="1h").aenqueue(order)
        return order
"""


class Runs:
    """Runs pytest on the given test files in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("shop.py", SHOP)
        self.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(textwrap.dedent(text))

    def run(self, test: str, *options: str, plugin: bool = True) -> subprocess.CompletedProcess[str]:
        self.write("test_shop.py", test)
        # the plugin is named, because an editable install may be older than its entry point
        named = ("-p", "lockwork.testing.plugin") if plugin else ()
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *named, *options],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    def passes(self, test: str, *options: str) -> str:
        done = self.run(test, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert import_module(project["entry-points"]["pytest11"]["lockwork"]).lockwork
    assert "pytest" in str(project["optional-dependencies"]["test"])


def test_fixture_records(runs: Runs) -> None:
    runs.passes("""
        from shop import pay, send

        def test_enqueue(lockwork):
            send.enqueue(1)
            lockwork.assert_enqueued(send, args=(1,), count=1)
            assert [job.args for job in lockwork.enqueued(send)] == [[1]]

        def test_begins_empty(lockwork):
            lockwork.assert_not_enqueued(send)
            with lockwork.inline():
                assert pay.enqueue(5).result() == 5
            lockwork.assert_enqueued(send, delay="1h")

        def test_fake(lockwork):
            with lockwork.fake_job(send, attempt=2) as job:
                assert send(3) == "mail 3"
            assert job.progress == [3]
    """)


def test_plugin_loads_nothing_before_its_fixtures_are_used(runs: Runs) -> None:
    runs.passes("""
        import sys

        def test_loaded():
            loaded = {name for name in sys.modules if name.startswith("lockwork")}
            assert loaded == {"lockwork", "lockwork.testing", "lockwork.testing.plugin"}
            assert not {"redis", "msgspec", "asyncio", "click"} & set(sys.modules) - {"asyncio"}
    """)


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_pytest_asyncio(runs: Runs, mode: str) -> None:
    runs.passes(
        """
        import pytest
        from shop import pay, send

        @pytest.mark.asyncio
        async def test_enqueue(lockwork):
            await send.aenqueue(1)
            with lockwork.inline():
                job = await pay.aenqueue(5)
                assert await job.aresult() == 5
            lockwork.assert_enqueued(send, count=2)

        @pytest.mark.asyncio
        async def test_server(lockwork, lockwork_server):
            job = await send.aenqueue(1)
            assert await job.astate() == "ready"
            lockwork.assert_enqueued(send, count=1)

        def test_sync(lockwork_server):
            assert send.enqueue(1).state() == "ready"
        """,
        "-p", "pytest_asyncio.plugin", "-o", f"asyncio_mode={mode}",
        "-o", "asyncio_default_fixture_loop_scope=function",
    )  # fmt: skip


def test_server_is_empty_for_each_test(runs: Runs) -> None:
    runs.passes("""
        import os
        import subprocess
        import sys
        import pytest
        from lockwork import Lockwork
        from lockwork.testing import flush, server
        from shop import lw, send

        prefixes = []

        @pytest.mark.parametrize("turn", [1, 2])
        def test_jobs(lockwork_server, turn):
            assert lw.queue("mail").status().ready == 0
            send.enqueue(1)
            assert lw.queue("mail").status().ready == 1
            own = Lockwork()
            assert own.config.prefix == lockwork_server.prefix == os.environ["LOCKWORK_PREFIX"]
            assert Lockwork(prefix="mine").config.prefix == "mine"
            prefixes.append(own.config.prefix)
            assert len(set(prefixes)) == len(prefixes)
            with own.lock("a"):
                assert any(key.startswith(own.config.prefix) for key in lockwork_server.keys())

        def test_other_process(lockwork_server):
            code = "from lockwork import Lockwork; lw = Lockwork(); lw.lock('a').acquire(); print(lw.config.prefix)"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            assert done.stdout.strip() == lockwork_server.prefix
            assert len(lockwork_server.leaks()) == 1
            assert flush(Lockwork()) >= 1
            assert lockwork_server.leaks() == []

        def test_flush_of_one_prefix(lockwork_server):
            send.enqueue(1)
            own = Lockwork(prefix="l*")
            with own.lock("a"):
                pass
            assert flush(own) >= 1
            assert lw.queue("mail").status().ready == 1
            assert flush(lw) > 1
            assert lockwork_server.keys() == []

        def test_two_at_once(lockwork_server):
            with pytest.raises(RuntimeError, match="in force already"), server():
                pass

        def test_without():
            assert "LOCKWORK_PREFIX" not in os.environ
            with pytest.raises(Exception, match="127.0.0.1:1"):
                send.enqueue(1)
    """)


def test_leaks_fail(runs: Runs) -> None:
    done = runs.run("""
        from lockwork import Lockwork
        from shop import lw

        def test_lock(lockwork_server):
            lw.lock("order:42").acquire()

        def test_semaphore(lockwork_server):
            Lockwork().semaphore("gpu", 2).acquire()

        def test_next_is_clean(lockwork_server):
            assert lw.lock("order:42").acquire(wait=0)
            lw.release_all()
    """)
    assert done.returncode == 1
    assert "1 passed" in done.stdout or "3 passed, 2 errors" in done.stdout, done.stdout
    assert "this test leaves on the server: lock 'order:42' is held by" in done.stdout
    assert "semaphore 'gpu' is held by" in done.stdout


def test_xdist(runs: Runs) -> None:
    runs.passes(
        """
        import pytest
        from shop import lw, send

        @pytest.mark.parametrize("turn", range(20))
        def test_jobs(lockwork_server, lockwork, turn):
            assert lw.queue("mail").status().ready == 0
            send.enqueue(turn)
            assert lw.queue("mail").status().ready == 1
            lockwork.assert_enqueued(send, args=(turn,), count=1)
        """,
        "-p", "xdist.plugin", "-n", "2",
    )  # fmt: skip


def test_without_the_plugin(runs: Runs) -> None:
    done = runs.run(
        """
        def test_fixture(lockwork): ...
        """,
        plugin=False,
    )
    assert "fixture 'lockwork' not found" in done.stdout
