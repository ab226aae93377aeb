"""What `import lockwork` and a Lockwork object import: the rest waits for the first use of a server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lockwork import Lockwork
from lockwork.errors import ConfigError


@pytest.mark.parametrize("url", ["redis://user:secret@cache-1.local:6379/2", "rediss://cache", "valkey://cache:7000"])
def test_app_imports_the_client_at_the_first_use_of_its_server(url: str) -> None:
    program = (
        "import sys\n"
        "from lockwork import Lockwork\n"
        f"lw = Lockwork({url!r})\n"
        "lw.task(print)\n"
        "lw.lock('x'), lw.queue('q'), lw.limiter('api', '1/s')\n"
        "print(*{'redis', 'importlib.metadata', 'asyncio', 'ssl', '_hashlib'} & sys.modules.keys())"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "\n"


@pytest.mark.parametrize(
    "url",
    ["redis://cache:70000", "redis://cache/mail", "redis://a,b", "redis://:a%b@cache", "redis://cache?a=b", "http://x"],
)
def test_wrong_url_is_refused_before_the_first_use(url: str) -> None:
    with pytest.raises(ConfigError):
        Lockwork(url)


def test_first_call_needs_no_redis_py(url: str) -> None:
    program = (
        "import sys\n"
        "from lockwork import Lockwork\n"
        f"with Lockwork({url!r}) as lw:\n"
        "    lw.queue('q').status()\n"
        "print(*{'redis', 'asyncio', 'ssl', '_hashlib'} & sys.modules.keys())"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "\n"
