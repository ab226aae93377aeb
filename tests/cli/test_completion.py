"""Shell completion: through the protocol of the completion scripts, and with Tab in a real bash."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from cli.conftest import Office
from clients import client_of
from hanging import black_hole, frozen
from indexed import listed
from lockwork.cli.commands import cli
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.embedded import start_private
from ports import free_port
from processes import started
from terminals import typist


def completed(words: str, tmp_path: Path, url: str | None = None, *, shell: str = "bash") -> list[str]:
    """Return the completions of the last word of this line; fail if anything else is printed."""
    *_, last = words.split(" ")
    asked = {"bash": len(words.split(" ")) - 1, "zsh": len(words.split(" ")) - 1, "fish": last}[shell]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMP_WORDS", words)
        patch.setenv("COMP_CWORD", str(asked))
        patch.setenv("_LOCKWORK_COMPLETE", f"{shell}_complete")
        with started([sys.executable, "-m", "lockwork"], folder=tmp_path, url=url) as process:
            assert process.process.stdout is not None
            text = process.process.stdout.read().decode()
            assert (process.wait(), process.errors) == (0, "")
    if shell == "zsh":
        return text.split("\n")[1:-1:3]
    return [item.partition(",")[2].partition("\t")[0] for item in text.split("\n") if item]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(shell: str) -> None:
    found = CliRunner().invoke(cli, ["completion", shell])
    assert found.exit_code == 0
    assert "_LOCKWORK_COMPLETE" in found.output


def test_commands_actions_and_options_are_completed_without_a_server(tmp_path: Path) -> None:
    assert completed("lockwork qu", tmp_path) == ["queue"]
    assert completed("lockwork sta", tmp_path) == ["status"]
    assert completed("lockwork dead --qu", tmp_path) == ["--queue"]
    assert completed("lockwork dead re", tmp_path) == ["retry"]
    assert completed("lockwork locks rel", tmp_path) == ["release"]
    assert completed("lockwork job re", tmp_path) == ["retry", "reschedule"]
    assert completed("lockwork queue drain --d", tmp_path) == ["--delayed"]
    assert completed("lockwork dead ", tmp_path) == ["list", "groups", "show", "retry", "delete"]
    assert completed("lockwork completion ", tmp_path) == ["bash", "zsh", "fish"]
    assert completed("lockwork jobs --s", tmp_path) == ["--scheduled", "--succeeded", "--since", "--search"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_of_queues_are_completed_in_each_shell(office: Office, tmp_path: Path, shell: str) -> None:
    assert completed("lockwork queue pause ma", tmp_path, office.url, shell=shell) == ["mail"]


def test_names_are_completed_from_the_server(office: Office, tmp_path: Path) -> None:
    (worker,) = office.lw.workers()
    phones = office.lw.stock("phones", 10, queue="sums")
    phones.reserve("ada")

    def offered(line: str) -> list[str]:
        return completed(f"lockwork {line}", tmp_path, office.url)

    with office.lw.lock("catalog"), client_of(office.url) as admin:
        listed(admin, "{lock:catalog}")
        assert offered("locks release cat") == ["catalog"]
    assert offered("queue pause s") == ["slow", "sums"]
    assert offered("queue s") == ["show", "slow", "sums"]
    assert offered("jobs mai") == ["mail"]
    assert offered("jobs cancel k") == ["keyed"]
    assert offered("dead -q mai") == offered("dead retry -q mai") == ["mail"]
    assert offered("flows --queue mai") == ["mail"]
    assert offered("enqueue se") == ["send"]
    assert offered("enqueue a") == ["add", "again"]
    assert offered("jobs --task n") == ["nightly"]
    assert offered("dead --task se") == ["send"]
    assert offered("schedules pause n") == ["nightly"]
    assert offered("schedules -q su") == ["sums"]
    assert offered("stocks ph") == ["phones"]
    assert offered(f"workers quiet {worker.name[:3]}") == [worker.name]
    assert offered("queue pause x") == []
    phones.delete()


def test_server_named_on_the_line_is_asked(office: Office, tmp_path: Path) -> None:
    assert completed(f"lockwork dead --url {office.url} -q ma", tmp_path) == ["mail"]
    assert completed("lockwork dead --prefix none -q ma", tmp_path, office.url) == []


def test_names_that_would_steer_the_terminal_are_left_out(own_url: str, tmp_path: Path) -> None:
    with redis.Redis.from_url(own_url) as admin:
        for name in ("mail", "mail\x1b[2J", "mail\nrm"):
            admin.hset(
                QueueKeys("lw", name).stats, "enqueued", "1"
            )  # as another program may do: Lockwork refuses the name
            admin.zadd("lw:{lockwork}:index:queues", {name: time.time() * 1000})
    assert completed("lockwork queue pause ma", tmp_path, own_url) == ["mail"]


def test_server_that_is_away_completes_nothing_quickly_and_silently(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    began = time.monotonic()
    assert completed("lockwork queue", tmp_path) == ["queue"]
    start = time.monotonic() - began  # start time of Python on this machine
    with start_private(tmp_path / "server") as server, frozen(server.pid), black_hole() as silent:
        away = [
            f"redis://127.0.0.1:{free_port()}",
            f"redis://127.0.0.1:{silent}",
            "redis://nowhere.invalid",
            server.url,
            "nonsense",
            "redis://127.0.0.1:port",
        ]
        for url in away:
            began = time.monotonic()
            assert completed("lockwork queue pause m", tmp_path, url) == []
            assert time.monotonic() - began < 3 * start + 5, url


def test_wrong_password_completes_nothing(url: str, tmp_path: Path) -> None:
    assert completed("lockwork queue pause m", tmp_path, url.replace("://", "://ada:wrong@")) == []


def test_completion_does_not_start_the_embedded_server(tmp_path: Path) -> None:
    assert completed("lockwork queue pause m", tmp_path) == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_tab_completes_in_bash(office: Office, tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    assert (folder / "lockwork").exists()
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    bash = ["bash", "--norc", "--noprofile", "-i"]
    with typist(bash, tmp_path, office.url, environment=path) as shell:
        shell.sees("ready> ")
        shell.types('eval "$(lockwork completion bash)"; bind "set enable-bracketed-paste off"; echo is" "loaded\n')
        shell.sees("is loaded")  # not the echo of the typed text
        shell.sees("ready> ")
        shell.types("echo lockwork schedules pau\t")
        shell.types("\x15lockwork schedules pau\t")
        shell.sees("lockwork schedules pause ")
        shell.types("ni\t")
        shell.sees("nightly")
        shell.types("\x15exit\n")
