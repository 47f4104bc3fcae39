"""What the fault tests share: commands that can be interrupted, small data, and what is compared."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
from forks import ForkServer
from grids import QUIET
from numpy.typing import NDArray
from waits import until

import dmmc
from dmmc.plain_json import plain
from dmmc.results.label_arrays import read_labels

HERE = Path(__file__).resolve().parent

Array = NDArray[Any]


@contextmanager
def limits(**seconds: float) -> Iterator[None]:
    """Settings dmmc.wait.*, in this process."""
    with dask.config.set({f"dmmc.wait.{name}": f"{value}s" for name, value in seconds.items()}):
        yield


def blobs(n: int = 1500, d: int = 24, k: int = 3, dtype: str = "f8", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    X = 8.0 * rng.standard_normal((n, d)) + 6.0 * rng.standard_normal((k, d))[rng.integers(k, size=n)]
    return (X + 100.0).clip(0, 255).astype(dtype) if dtype == "u1" else X.astype(dtype)


def bits(run: Any) -> dict[str, Any]:
    """All of a run that may not depend on who computed it."""
    model = run.model
    history = [{key: value for key, value in line.items() if key != "seconds"} for line in run.history]
    return {
        "labels": run.labels.tobytes(),
        "coef": model.coef_.tobytes(),
        "intercept": model.intercept_.tobytes(),
        "history": plain(history),
        "objective": model.objective_,
    }


def written(out: Path) -> dict[str, Any]:
    """The same, of what a run wrote."""
    model = dmmc.load(out)
    lines = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    return {
        "labels": read_labels(str(out / "labels.zarr")).tobytes(),
        "coef": model.coef_.tobytes(),
        "intercept": model.intercept_.tobytes(),
        "history": [{key: value for key, value in line.items() if key != "seconds"} for line in lines],
        "objective": model.objective_,
    }


class Command:
    """A `dmmc` process (see `fault_cli`), the leader of its own group as one started from a terminal is.

    Parameters
    ----------
    forks : starts it
    arguments : of the command line
    pause : seconds after each pass
    settings : environment
    """

    def __init__(self, forks: ForkServer, *arguments: object, pause: float = 0.0, **settings: str) -> None:
        settings = {**QUIET, "PAUSE": str(pause), **settings}
        if arguments[0] == "fit" and not {"--method", "--constraints"} & set(map(str, arguments)):
            arguments = ("fit", "--method", "cpmmc", *arguments[1:])
        self.process = forks.start("fault_cli:main", *arguments, path=str(HERE), **settings)
        self.out = Path(str(arguments[arguments.index("-o") + 1])) if "-o" in arguments else None

    def await_passes(self, number: int, seconds: float = 60.0) -> None:
        """Wait until so many passes are in the history."""
        assert self.out is not None
        history = self.out / "history.jsonl"

        def there() -> bool:
            assert self.process.poll() is None, self.process.stderr
            return history.exists() and history.read_bytes().count(b"\n") >= number

        until(there, f"{number} passes", seconds)

    def ended(self, seconds: float = 60.0) -> tuple[int, str]:
        """Exit code and what it said on stderr, within a limit."""
        return self.process.wait(seconds), self.process.stderr


class During:
    """Runs something in a thread of its own while the test waits for a run; its failure is the test's."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._act, daemon=True)

    def _act(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self._error = error

    def __enter__(self) -> During:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.join(60)
        if self._error is not None:
            raise self._error
