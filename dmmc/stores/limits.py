"""Limits of all that is asked of an object store: settings of Dask, such as `DASK_DMMC__STORE__TOTAL=5m`."""

from typing import Any, NamedTuple

from dmmc.errors import InputError

DEFAULTS = {"answer": "30s", "total": "2m", "at_once": 64}


class StoreLimits(NamedTuple):
    """How patient readers and writers are; a worker gets those of the driver."""

    answer: float
    """Seconds for one answer, whole; then it is asked for again."""
    total: float
    """Seconds for one object, all tries and the pauses between them."""
    at_once: int
    """Requests of one process at the same time."""

    @classmethod
    def from_config(cls) -> "StoreLimits":
        """Read the limits from Dask's settings, `dmmc.store.*`."""
        import dask

        given = {name: dask.config.get(f"dmmc.store.{name}", default) for name, default in DEFAULTS.items()}
        seconds = [_read_time(name, given[name]) for name in ("answer", "total")]
        at_once = given["at_once"]
        if not isinstance(at_once, int) or at_once < 1:
            raise InputError(f"dmmc.store.at_once is {at_once!r}; a whole number of at least 1 is wanted.")
        return cls(seconds[0], seconds[1], at_once)


def _read_time(name: str, given: Any) -> float:
    import dask

    try:
        seconds = float(dask.utils.parse_timedelta(given, default="s"))
    except (AttributeError, KeyError, TypeError, ValueError):
        seconds = 0.0
    if not seconds > 0:
        raise InputError(f"dmmc.store.{name} is {given!r}; a time such as '30s' or '5m' is wanted.")
    return seconds
