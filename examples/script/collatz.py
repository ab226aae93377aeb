"""Run 10,000 jobs on the workers of all machines, with a progress bar.

Run `lockwork worker collatz`, and in another terminal `python collatz.py`.
"""

import sys
from collections.abc import Iterator

from lockwork import Lockwork

lw = Lockwork(prefix="collatz")


@lw.task
async def steps(number: int) -> int:
    """Return the number of steps of the Collatz sequence from a number to 1."""
    count = 0
    while number != 1:
        number = 3 * number + 1 if number % 2 else number // 2
        count += 1
    return count


def numbers(count: int) -> Iterator[int]:
    """Yield the numbers; `map` reads them as jobs end."""
    yield from range(1, count + 1)


def main(count: int = 10_000) -> None:
    """Print the number with the longest sequence."""
    with lw:
        results = steps.map(numbers(count), progress=True)
    longest = max(results)
    print(f"{len(results):,} jobs: {results.index(longest) + 1} needs {longest} steps")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
