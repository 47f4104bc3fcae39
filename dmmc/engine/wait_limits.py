"""How long to wait for a cluster: settings of Dask, such as `dmmc.wait.workers` or `DASK_DMMC__WAIT__WORKERS=5m`."""

from __future__ import annotations

from typing import NamedTuple

import dask

from dmmc.errors import InputError


class Limits(NamedTuple):
    """Seconds."""

    connect: float
    """For a scheduler, or its file."""
    workers: float
    """For a first worker, at the start and after all are lost."""
    stuck: float
    """For a sign of life of a worker, or an answer of the scheduler."""
    task: float
    """For one task."""

    @classmethod
    def from_config(cls) -> Limits:
        """Read the limits from Dask's settings."""
        seconds = {}
        for name, default in DEFAULTS.items():
            given = dask.config.get(f"dmmc.wait.{name}", default)
            try:
                seconds[name] = float(dask.utils.parse_timedelta(given, default="s"))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise InputError(f"dmmc.wait.{name} is {given!r}; a time such as '90s' or '5m' is wanted.") from error
        return cls(**seconds)


DEFAULTS = {"connect": "30s", "workers": "60s", "stuck": "60s", "task": "1h"}
