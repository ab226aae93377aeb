"""Replay one seed and print everything that happened: `python -m simulation locks 12345`, in `tests/`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lockwork.runtime.embedded import start_private
from simulation import runs
from simulation.server import Server
from simulation.world import Broken


def main(kind: str, seed: str) -> int:
    """Play the run `kind` (locks or queue) with `seed`; 1 when a rule was broken."""
    run: runs.Run = {"locks": runs.locks, "queue": runs.queue}[kind]
    with tempfile.TemporaryDirectory() as folder, start_private(Path(folder)) as started:
        server = Server(started.url)
        try:
            print("\n".join(run(server, int(seed), runs.RELEASED).trace))
        except Broken as error:
            print(error)
            return 1
        finally:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
