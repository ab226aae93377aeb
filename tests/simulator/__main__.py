"""Replay one seed and print everything that happened: `python -m simulator locks 12345`, in `tests/`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lockwork.runtime.embedded import start_private
from simulator.server import Server
from simulator.table import RUNS
from simulator.world import Broken


def main(kind: str, seed: str) -> int:
    """Play the run `kind` with `seed`; return 1 if it breaks a rule, 2 if `kind` is unknown."""
    if kind not in RUNS:
        print(f"no run is called {kind}: there are {', '.join(RUNS)}")
        return 2
    with tempfile.TemporaryDirectory() as folder, start_private(Path(folder)) as started:
        server = Server(started.url)
        try:
            print("\n".join(RUNS[kind].play(server, int(seed)).trace))
        except Broken as error:
            print(error)
            return 1
        finally:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
