"""Checks the files of deploy/ with linters and schemas, and a worker as process 1 of a namespace."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import zygote
from lockwork import Lockwork
from lockwork.cli.commands import cli
from processes import started, until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def objects(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a YAML file."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def containers() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return the containers of all deployments by name, each with its pod."""
    pods = [
        each["spec"]["template"]["spec"]
        for path in KUBERNETES
        for each in objects(path)
        if each["kind"] == "Deployment"
    ]
    return {container["name"]: (container, pod) for pod in pods for container in pod["containers"]}


def commands() -> list[tuple[str, list[str]]]:
    """Return every `lockwork` command of the files."""
    found = [("kubernetes", container["args"]) for container, _ in containers().values()]
    found += [("compose", service["command"]) for service in compose()["services"].values() if "command" in service]
    found.append(
        ("Dockerfile", json.loads(re.findall(r"^CMD (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[-1]))
    )
    for unit in (DEPLOY / "systemd").glob("*.service"):
        found += [
            (unit.name, shlex.split(line)) for line in re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        ]
    found += [("Procfile", words[1:]) for words in procfile()]  # without the variable
    return [(where, words[1:]) for where, words in found if Path(words[0]).name == "lockwork"]


def procfile() -> list[list[str]]:
    """Return the words of each process of the Procfile."""
    lines = (DEPLOY / "Procfile").read_text().splitlines()
    return [shlex.split(line.partition(": ")[2]) for line in lines]


def compose() -> dict[str, Any]:
    (document,) = objects(DEPLOY / "compose.yaml")
    return document


def test_lockwork_commands_exist_with_their_options() -> None:
    assert isinstance(cli, click.Group)
    assert {where for where, _ in commands()} >= {
        "Dockerfile",
        "Procfile",
        "compose",
        "kubernetes",
        "shop-worker.service",
    }
    for where, words in commands():
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None, where
        command.make_context(words[0], list(words[1:]))


def test_dockerfile_passes_hadolint() -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if linter is None:
        pytest.skip("hadolint is not installed")
    ran = subprocess.run([linter, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_image_has_the_files_that_it_copies() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [word for words in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in words.split()]
    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert [path for path in copied if f"!{path}" not in ignored] == []


def test_compose_file_fits_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    folder = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    jsonschema.validate(compose(), json.loads((folder / "compose-spec.json").read_text()))


@pytest.mark.parametrize("path", [path for path in KUBERNETES if path.name != "keda.yaml"], ids=lambda path: path.name)
def test_manifests_fit_the_schemas_of_kubernetes(path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for each in objects(path):
        validate.validate(each, validate.latest_version(), strict=True)


SCALED_OBJECT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["scaleTargetRef", "triggers"],
            "properties": {
                "scaleTargetRef": {"type": "object", "required": ["name"]},
                "minReplicaCount": {"type": "integer", "minimum": 0},
                "maxReplicaCount": {"type": "integer", "minimum": 1},
                "pollingInterval": {"type": "integer"},
                "cooldownPeriod": {"type": "integer"},
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["type", "metadata"],
                        "properties": {
                            "type": {"const": "prometheus"},
                            "metricType": {"enum": ["AverageValue", "Value"]},
                            # all values are text
                            "metadata": {
                                "type": "object",
                                "required": ["serverAddress", "query", "threshold"],
                                "additionalProperties": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The part of KEDA's ScaledObject that the file uses."""


def test_scaler_fits_the_schema_and_scales_the_workers() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    (scaler,) = objects(DEPLOY / "kubernetes" / "keda.yaml")
    jsonschema.validate(scaler, SCALED_OBJECT)
    (target, *_) = objects(DEPLOY / "kubernetes" / "worker.yaml")
    assert scaler["spec"]["scaleTargetRef"]["name"] == target["metadata"]["name"]
    assert "replicas" not in target["spec"]  # an apply would undo the scaler's number
    page = (ROOT / "docs" / "metrics.md").read_text()
    names = re.findall(r"lockwork_\w+", scaler["spec"]["triggers"][0]["metadata"]["query"])
    assert names
    assert [name for name in names if name not in page] == []


@pytest.mark.parametrize(
    ("series", "value"),
    [
        ({'lockwork_oldest_ready_seconds{queue="a"}': 5, 'lockwork_oldest_ready_seconds{queue="b"}': 60}, 60),
        ({'lockwork_oldest_ready_seconds{queue="a"}': 60, 'lockwork_queue_paused{queue="a"}': 1}, None),
        ({"lockwork_server_up": 1}, 0),
        ({"lockwork_server_up": 0}, None),
        ({}, None),
    ],
)
def test_scaler_reads_the_highest_age_or_nothing(tmp_path: Path, series: dict[str, int], value: int | None) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    (scaler,) = objects(DEPLOY / "kubernetes" / "keda.yaml")
    test = {
        "interval": "15s",
        "input_series": [{"series": name, "values": str(number)} for name, number in series.items()],
        "promql_expr_test": [
            {
                "expr": scaler["spec"]["triggers"][0]["metadata"]["query"],
                "eval_time": "0s",
                "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
            }
        ],
    }
    (tmp_path / "scaler.yaml").write_text(yaml.safe_dump({"tests": [test]}))
    ran = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "scaler.yaml"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_managers_wait_ten_seconds_longer_than_the_grace() -> None:
    container, pod = containers()["worker"]
    assert container["args"][container["args"].index("--grace") + 1] == "30s"
    assert pod["terminationGracePeriodSeconds"] == 40
    assert compose()["services"]["worker"]["stop_grace_period"] == "40s"
    unit = (DEPLOY / "systemd" / "shop-worker.service").read_text()
    assert "--grace 30s\n" in unit
    assert "\nTimeoutStopSec=40\n" in unit


def test_processes_without_a_url_fail() -> None:
    assert " LOCKWORK_EMBEDDED=off\n" in (DEPLOY / "Dockerfile").read_text()
    for name, service in compose()["services"].items():
        assert name == "valkey" or service["environment"]["LOCKWORK_EMBEDDED"] == "off", name
    for name, (container, _) in containers().items():
        assert {"name": "LOCKWORK_EMBEDDED", "value": "off"} in container["env"], name
    for unit in (DEPLOY / "systemd").glob("*.service"):
        assert "\nEnvironment=LOCKWORK_EMBEDDED=off\n" in unit.read_text(), unit
    assert {words[0] for words in procfile()} == {"LOCKWORK_EMBEDDED=off"}


def test_pods_run_without_privileges() -> None:
    for name, (container, pod) in containers().items():
        assert pod["securityContext"]["runAsNonRoot"], name
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }, name


@pytest.mark.parametrize("unit", sorted((DEPLOY / "systemd").glob("*.service")), ids=lambda path: path.name)
def test_units_pass_systemd_analyze(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # it checks that the program exists
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/srv/shop/bin/lockwork", "/bin/true"))
    ran = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    problems = [line for line in ran.stderr.splitlines() if unit.name in line]
    assert (problems, ran.returncode) == ([], 0), ran.stderr


def test_worker_as_process_1_returns_its_jobs_and_exits(own_url: str, tmp_path: Path) -> None:
    """Process 1 ignores every signal for which it has no handler."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") is None or zygote.run([*command, "true"], timeout=30).returncode != 0:
        pytest.skip("this machine allows no PID namespaces")
    (tmp_path / "shop.py").write_text(
        "import time\nfrom lockwork import Lockwork\nlw = Lockwork()\n@lw.task\ndef nap():\n    time.sleep(600)\n"
    )
    words = [*command, sys.executable, "-m", "lockwork", "worker", "shop:lw", "--grace", "0s"]
    with Lockwork(own_url) as lw, started(words, folder=tmp_path, url=own_url) as process:
        until(lambda: " works on " in process.errors, "the worker fetches jobs")
        assert " [1] lockwork.worker: " in process.errors
        with Lockwork(own_url) as producer:

            @producer.task
            def nap() -> None: ...

            job = nap.enqueue()
            until(lambda: job.state() == "running", "the job runs")
            (pid,) = process.children()
            os.kill(pid, signal.SIGTERM)
            assert process.wait() == 0, process.errors
            assert job.state() == "ready"
        assert lw.workers() == []
