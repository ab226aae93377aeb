"""Count the words of files with the workers of all machines: a plain script and its jobs.

Run `lockwork worker pages`, and in another terminal `python pages.py FILE...`.
"""

import sys
import time
from pathlib import Path

from lockwork import JobFailed, Lockwork

lw = Lockwork(prefix="pages")


@lw.task(unique="count:{file}", retries=1, result_ttl="1h")
def count(file: str) -> int:
    """Return the number of words of a file."""
    time.sleep(0.5)  # as a slow file system
    return len(Path(file).read_text().split())


def main(files: list[str]) -> int:
    """Print the words of each file; return the exit status."""
    status = 0
    with lw:
        jobs = count.enqueue_many([(file,) for file in files])
        for file, job in zip(files, jobs, strict=True):
            try:
                print(f"{file}: {job.result(timeout='5m')} words")
            except JobFailed as error:
                print(f"{file}: {error}", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
