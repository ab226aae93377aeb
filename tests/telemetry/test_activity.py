"""The metrics that were read of a span, cut to a part of it, a queue, or its last moments."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from lockwork.protocol.metrics.metrics import Moment
from lockwork.telemetry.metrics import Activity


def at(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


def moments(counts: dict[int, int]) -> dict[int, Moment]:
    return {minute: Moment(Counter(succeeded=count)) for minute, count in counts.items()}


FOUND = Activity(
    "m",
    60,
    1000,
    {
        ("mail/0", "send"): moments({945: 1, 999: 20}),
        ("mail/1", "send"): moments({999: 300}),
        ("images", "resize"): moments({950: 4000, 1000: 50000}),
    },
)


def counts(found: Activity) -> dict[tuple[str, str], int]:
    return {key: point.succeeded for key, point in found.by_task().items()}


def test_series_has_each_moment_and_their_sum() -> None:
    series = FOUND.series()
    assert [point.at for point in series.points] == [at(minute) for minute in range(941, 1001)]
    assert {point.at: point.succeeded for point in series.points if point.succeeded} == {
        at(945): 1, at(950): 4000, at(999): 320, at(1000): 50000,
    }  # fmt: skip
    assert (series.total.at, series.total.seconds, series.total.succeeded) == (at(941), 3600, 54321)


def test_partitions_of_a_queue_are_one() -> None:
    assert counts(FOUND) == {("mail", "send"): 321, ("images", "resize"): 54000}
    assert counts(FOUND.of("mail")) == {("mail", "send"): 321}
    assert counts(FOUND.of("mail/1")) == {("mail", "send"): 300}
    assert counts(FOUND.of("none")) == {}


def test_part_has_the_moments_that_it_touches() -> None:
    part = FOUND.between(at(950), at(999))
    assert (part.count, part.last) == (49, 998)
    assert counts(part) == {("images", "resize"): 4000}
    assert part.series().total.succeeded == 4000
    assert FOUND.between(datetime.fromtimestamp(950 * 60 + 59, UTC), at(951)).series().total.succeeded == 4000


def test_part_is_within_the_span_and_never_empty() -> None:
    assert FOUND.between(at(0), at(2000)) == FOUND
    for begin, end in ((at(0), at(10)), (at(2000), at(3000)), (at(970), at(970))):
        part = FOUND.between(begin, end)
        assert part.count == 1
        assert 941 <= part.last <= 1000
        assert len(part.series().points) == 1


def test_last_moments_include_the_one_in_progress() -> None:
    last = FOUND.latest(2).series()
    assert [point.succeeded for point in last.points] == [320, 50000]
    assert (last.total.at, last.total.seconds, last.total.succeeded) == (at(999), 120, 50320)
