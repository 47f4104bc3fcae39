"""Which workers there are, which of them stand still, and which tasks must be moved to others."""

import time
from collections.abc import Mapping, Sequence

from dmmc.engine.dask_client import Cluster, Worker
from dmmc.engine.messages import Task
from dmmc.errors import ClusterLost

INTERVAL = 1.0
"""Seconds between two looks at the workers."""


class WorkerWatch:
    """The workers of a cluster as they were last seen."""

    def __init__(self, cluster: Cluster) -> None:
        self.workers: dict[str, Worker] = {}
        self._cluster = cluster
        self._updated_at = 0.0
        self._heard: dict[str, tuple[float, float]] = {}
        """Last sign of life of each worker: on the scheduler's clock, and when we noticed it on ours."""
        self._empty_since: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether the last update is too long ago."""
        return time.monotonic() - self._updated_at > INTERVAL

    def update(self) -> Mapping[str, Worker]:
        """Ask for the workers, wait for a first one; gives those that are to keep blocks."""
        self.workers = self._cluster.workers()
        if not self.workers:
            self._cluster.await_workers()
            self.workers = self._cluster.workers()
        self._updated_at = time.monotonic()
        unfit = self._find_stuck() | self._cluster.check_versions(self.workers)
        return {address: worker for address, worker in self.workers.items() if address not in unfit} or self.workers

    def find_lost(self, running: Sequence[Task], name: str) -> list[Task]:
        """Tasks whose worker is gone or stands still and which no other worker has taken over.

        To be called while no task ends; `name` is that of the matrix. Raises `ClusterLost` if there are no workers for
        too long, all stand still, or a task takes too long.
        """
        now = time.monotonic()
        limits = self._cluster.limits
        self.workers = self._cluster.workers()
        if not self.workers:
            self._empty_since = self._empty_since or now
            if now - self._empty_since > limits.workers:
                raise self._cluster.no_workers_error()
            return []
        self._empty_since = None
        for task in running:
            if now - task.began > limits.task:
                raise ClusterLost(
                    f"a task over {task.rows} of {name} took longer than {limits.task:.0f} s (dmmc.wait.task): is its "
                    "store within reach? Go on with --resume (resume=True)."
                )
        stuck = self._find_stuck()
        if stuck == set(self.workers):
            raise ClusterLost(
                f"no worker has given a sign of life for {limits.stuck:.0f} s (dmmc.wait.stuck): look at "
                f"{', '.join(sorted(stuck)[:3])}, then go on with --resume (resume=True)."
            )
        healthy = set(self.workers) - stuck
        lost = [task for task in running if task.worker not in healthy]
        if not lost:
            return []
        # a task whose worker is gone may be with nobody: Dask does not offer it to workers that come later
        taken_over = self._cluster.list_unfinished(healthy)
        return [task for task in lost if str(task.future.key) not in taken_over]

    def _find_stuck(self) -> set[str]:
        """Workers that have given no sign of life for too long."""
        now = time.monotonic()
        for address, worker in self.workers.items():
            if self._heard.get(address, (None, 0.0))[0] != worker.heard:
                self._heard[address] = (worker.heard, now)
        return {a for a in self.workers if now - self._heard[a][1] > self._cluster.limits.stuck}
