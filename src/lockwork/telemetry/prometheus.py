"""Metrics of the whole cluster for prometheus-client: extra `lockwork[metrics]`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from lockwork.config import Config
from lockwork.errors import ConfigError
from lockwork.runtime.runtime import Runtime
from lockwork.telemetry.cluster import ClusterFamilies
from lockwork.telemetry.families import PREFIX
from lockwork.version import install_command

try:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector
except ImportError:
    raise ConfigError(f"metrics need prometheus-client: {install_command('metrics')}") from None


class _App(Protocol):
    runtime: Runtime
    config: Config


class LockworkCollector(Collector):
    """Metrics of all queues, tasks, locks and stocks: `REGISTRY.register(LockworkCollector(lw))`.

    The app needs only the server's URL. Use it in one process of the cluster. A scrape costs some calls for each queue,
    and reads all locks every 15 s.
    """

    def __init__(self, app: _App) -> None:
        self._families = ClusterFamilies(app.runtime, app.config.prefix)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering makes no call to the server."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Read all families."""
        for family in self._families.read():
            full = PREFIX + family.name
            metric = Metric(full.removesuffix("_total"), f"{family.text}.", family.kind)
            for labels, value, suffix in family.samples:
                metric.add_sample(full + suffix, labels, value)
            yield metric
