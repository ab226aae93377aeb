"""Jobs and PostgreSQL: a pool smaller than the concurrency, and a restart of the database."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from django_project import START, DjangoProject
from processes import until

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
JOBS = 60


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed")
    return found[-1].parent


def _owner() -> dict[str, Any]:
    """Return the options of `subprocess.run` for programs that refuse to run as root."""
    if os.getuid() != 0:
        return {}
    try:
        return {"user": pwd.getpwnam("postgres").pw_uid}
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A private PostgreSQL server, as an entry of DATABASES."""
    programs, options = _programs(), _owner()
    folder = Path(f"/tmp/lockwork-pg-{os.getpid()}")
    folder.mkdir(mode=0o700)
    if options:
        os.chown(folder, options["user"], -1)

    def run(program: str, *words: str) -> None:
        command = [str(programs / program), "-D", str(folder / "data"), *words]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **options)

    run("initdb", "-A", "trust", "-U", "postgres", "--no-sync")
    run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f"-k {folder} -c listen_addresses= -c fsync=off", "start")
    try:
        with psycopg.connect(host=str(folder), user="postgres", dbname="postgres") as connection:
            connection.execute("CREATE TABLE orders_order (id bigserial PRIMARY KEY, state text NOT NULL)")
            connection.execute("INSERT INTO orders_order (state) VALUES ('new')")
        yield {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": str(folder),
            "CONN_HEALTH_CHECKS": True,
        }
    finally:
        run("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "settings",
    [{"OPTIONS": {"pool": {"min_size": 1, "max_size": 4, "timeout": 60}}}, {"CONN_MAX_AGE": None}],
    ids=["pool", "persistent"],
)
def test_jobs_wait_for_a_connection_and_survive_a_restart(
    project: DjangoProject, database: dict[str, Any], settings: dict[str, Any]
) -> None:
    project.configure({"DATABASES": {"default": {**database, **settings}}})
    ship, aship = (project.task(name, "order") for name in ("ship", "aship"))
    with (
        project.manage("lockwork", "worker", "--concurrency", "30", "--skip-checks") as worker,
        psycopg.connect(host=database["HOST"], user="postgres", dbname="postgres", autocommit=True) as connection,
    ):
        until(lambda: "works on default" in worker.errors, "the worker is ready", START)
        jobs = [*ship.enqueue_many([(1,)] * JOBS), *aship.enqueue_many([(1,)] * JOBS)]
        assert {job.result(timeout=START) for job in jobs} == {"shipped 1"}
        others = "FROM pg_stat_activity WHERE usename = 'postgres' AND pid <> pg_backend_pid() AND client_port = -1"
        if "OPTIONS" in settings:
            assert connection.execute(f"SELECT count(*) {others}").fetchone()[0] <= 4
        connection.execute(f"SELECT pg_terminate_backend(pid) {others}")
        again = [*ship.enqueue_many([(1,)] * JOBS), *aship.enqueue_many([(1,)] * JOBS)]
        assert {job.result(timeout=START) for job in again} == {"shipped 1"}
        assert {job.inspect().attempt for job in (*jobs, *again)} == {1}
