"""Other programs in a PHP process, where that is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from compat.laravel import CACHE, CONNECTION, Laravel
from lockwork.runtime.embedded import Embedded
from processes import Started, started

HERE = Path(__file__).parent
PACKAGES = "php-cli php-redis php-illuminate-cache php-illuminate-redis php-illuminate-events"


@pytest.fixture
def laravel(server: Embedded) -> Iterator[Laravel]:
    """Skipped, with a reason, where PHP or one of Laravel's parts is not installed."""
    reason = _lacking()
    if reason:
        pytest.skip(reason)
    command = ["php", str(HERE / "laravel.php"), server.url.removeprefix("unix://").partition("?")[0]]
    with started([*command, CONNECTION, CACHE], folder=HERE) as process:
        yield Laravel(process)


@pytest.fixture
def php_holder(server: Embedded) -> Iterator[Started]:
    """The holder of cut_time.php for key "cut"; skipped, with a reason, where PHP or its extension is not installed."""
    if shutil.which("php") is None:
        pytest.skip("PHP is not installed; on Debian: apt-get install php-cli php-redis")
    found = subprocess.run(["php", "-r", "exit(extension_loaded('redis') ? 0 : 1);"], check=False, timeout=30)
    if found.returncode:
        pytest.skip("PHP lacks its extension for Redis; on Debian: apt-get install php-redis")
    command = ["php", str(HERE / "cut_time.php"), server.url.removeprefix("unix://").partition("?")[0], "cut"]
    with started(command, folder=HERE) as process:
        yield process


@cache
def _lacking() -> str:
    if shutil.which("php") is None:
        return f"PHP is not installed; on Debian: apt-get install {PACKAGES}"
    parts = "".join(f"require 'Illuminate/{part}/autoload.php';" for part in ("Cache", "Redis", "Events"))
    found = subprocess.run(
        ["php", "-r", f"{parts} exit(extension_loaded('redis') ? 0 : 1);"], capture_output=True, check=False, timeout=30
    )
    return "" if found.returncode == 0 else f"PHP lacks parts of Laravel; on Debian: apt-get install {PACKAGES}"
