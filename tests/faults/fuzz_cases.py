"""Small fits of every kind, whole and stopped on the way: what is altered by the fuzz tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import scipy.sparse
from stops import Stop, stop_after

import dmmc
from dmmc.data import blocks
from dmmc.methods import METHODS
from dmmc.results import checkpoints

ROWS, FEATURES = 72, 5
LIMITS = {"max_iter": 60}
FEATURE_NAMES = ("nystroem", "lsa", "smooth", "spectral")


class Case(NamedTuple):
    """What is asked of `dmmc.fit`."""

    options: dict[str, Any]
    many_blocks: bool = True
    in_start: str | None = None
    """A part of the name of a search that is not the fit's own (one that this starts from, or that of a candidate of
    `auto`), if it is stopped in there; "" is in any of them."""


def make_rows() -> Any:
    rng = np.random.default_rng(5)
    centres = 3.0 * rng.standard_normal((3, FEATURES))
    return (centres[np.arange(ROWS) % 3] + rng.standard_normal((ROWS, FEATURES))).astype(np.float32)


def make_table() -> Any:
    """The rows with ids, a category and a date beside them, and some cells missing."""
    rows = make_rows()
    columns = {f"column {i}": np.where(np.arange(ROWS) % 9 == i, np.nan, rows[:, i]) for i in range(FEATURES)}
    kinds = [None if i % 20 == 7 else "abc"[i % 3] for i in range(ROWS)]
    days = np.datetime64("2024-01-01", "us") + (np.arange(ROWS) % 31).astype("timedelta64[D]")
    return pandas.DataFrame({"name": [f"row {i}" for i in range(ROWS)], **columns, "kind": kinds, "day": days})


def make_links() -> list[tuple[int, int, str]]:
    return [(i, i + 3, "must") for i in range(0, 30, 2)] + [(i, i + 1, "cannot") for i in range(0, 30, 3)]


def make_cases() -> dict[str, Case]:
    """Every method with two and with three clusters, kinds of features, starts and rows, and published variants."""
    X = make_rows()
    cases: dict[str, Case] = {}
    for method in METHODS:
        more = {"constraints": make_links()} if METHODS[method].estimator == "PairwiseMMC" else {}
        for k in (2, 3):
            options = {"source": X, "n_clusters": k, "method": method, **LIMITS, **more}
            cases[f"{method}, {k}"] = Case(options, many_blocks=k == 3)
    plain = {"source": X, "n_clusters": 3, "method": "cpmmc", **LIMITS}
    for features in FEATURE_NAMES:
        cases[features] = Case({**plain, "features": features})
    cases["graph start"] = Case({**plain, "features": "spectral", "init": "graph"})
    cases["tree of a graph start"] = Case({**plain, "method": "mmc-sg", "features": "smooth", "init": "graph"})
    cases["tree of a kernel"] = Case({**plain, "method": "rmmc-sg", "features": "nystroem", "n_components": 9})
    cases["subspace of a kernel"] = Case({**plain, "method": "smmc", "features": "nystroem", "n_components": 9})
    cases["inside"] = Case({**plain, "order": "inside", "init": "random", "n_init": 2})
    cases["given labels"] = Case({**plain, "init": np.arange(ROWS) % 3, "sample_weight": 1.0 + np.arange(ROWS) % 4})
    cases["sparse"] = Case({**plain, "source": scipy.sparse.csr_array(np.where(X > 0, X, 0))})
    words = scipy.sparse.csr_array(np.floor(np.abs(X)).astype(np.float32))
    cases["words"] = Case({**plain, "source": words, "method": "lsmmc"})
    cases["pixels"] = Case({**plain, "source": np.clip(40 * np.abs(X), 0, 255).astype(np.uint8), "method": "lsmmc"})
    for features in ("axes", "spectral", "nystroem"):
        cases[f"least squares, {features}"] = Case({**plain, "method": "lsmmc", "features": features})
    cases["bounds"] = Case({**plain, "min_size": 0.9, "max_size": 1.2})
    cases["published step"] = Case({**plain, "n_clusters": 2, "method": "rmmc-sg", "ramp": "cccp", "step": "paper"})
    cases["published subspace"] = Case({**plain, "method": "smmc", "schedule": "paper"})
    published = {**plain, "n_clusters": 2, "method": "evommc", "mutation": "paper", "n_init": 2}
    cases["published evolution"] = Case(published, many_blocks=False)
    cases["many labellings"] = Case({**plain, "method": "fast-evommc", "population": 3, "offspring": 4})
    cases["start by planes"] = Case({**plain, "n_clusters": 2, "method": "mmc-sg", "init": "cpmmc"}, in_start="")
    linked = {**plain, "n_clusters": 2, "method": "pairwise", "constraints": make_links()[:9]}
    cases["start without links"] = Case(linked, in_start="")
    for name, in_start in (("graph", "cpmmc, spectral"), ("kernel", "lsmmc, kernel"), ("features", "lsmmc")):
        best = {"source": X, "n_clusters": 3, "effort": "best"}
        cases[f"a later candidate, {name}"] = Case(best, in_start=in_start)
    views = {"source": [X, words], "n_clusters": 3, **LIMITS}
    cases["views"] = Case({**views, "method": "lsmmc"})
    cases["views of a tree"] = Case({**views, "method": "rmmc-sg"})
    cases["views of the default"] = Case({"source": [X, X[:, :3] ** 2], "n_clusters": 3}, in_start="cpmmc")
    table = make_table()
    cases["table"] = Case({**plain, "source": table})
    cases["table of the default"] = Case({"source": table, "n_clusters": "2..4"}, in_start="cpmmc")
    return cases


@contextmanager
def cut_into_blocks(many: bool) -> Iterator[None]:
    """Let rows be in several blocks, or in one."""
    before = blocks.ONE_BLOCK, blocks.FOUR_BLOCKS
    if many:
        blocks.ONE_BLOCK, blocks.FOUR_BLOCKS = 512, 1024
    yield
    blocks.ONE_BLOCK, blocks.FOUR_BLOCKS = before


def fit(case: Case, out: Path, **more: Any) -> Any:
    with cut_into_blocks(case.many_blocks):
        return dmmc.fit(**case.options, out=out, n_jobs=1, **more)


def write_case(case: Case, folder: Path) -> str:
    """The result of a fit, what is left of it when it is stopped on the way, and a digest of it."""
    run = fit(case, folder / "whole")
    inside = case.in_start is not None
    with stop_in_start(case.in_start or "") if inside else stop_after_passes(max(1, len(run.history) // 2)) as stop:
        try:
            fit(case, folder / "stopped", callbacks=stop)
        except Stop:
            return digest(run)
    raise AssertionError("it was not stopped")


@contextmanager
def stop_after_passes(count: int) -> Iterator[Callable[..., None]]:
    yield stop_after(count)


@contextmanager
def stop_in_start(name: str) -> Iterator[None]:
    """Stop when a search of such a name, which is not the fit's own, is on its way."""
    keep = checkpoints._StartKeeper.keep

    def keep_and_stop(self: Any, state: Any, history: Any) -> None:
        keep(self, state, history)
        if name in self._key and len(history) >= 2:
            raise Stop

    checkpoints._StartKeeper.keep = keep_and_stop  # type: ignore[method-assign]
    try:
        yield
    finally:
        checkpoints._StartKeeper.keep = keep  # type: ignore[method-assign]


def digest(run: Any) -> str:
    """Of all that may not differ between two fits."""
    model = run.model
    history = [{name: value for name, value in line.items() if name != "seconds"} for line in run.history]
    told = json.dumps([repr(model.objective_), repr(history)])
    parts = (run.labels, model.coef_, model.intercept_)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts) + told.encode()).hexdigest()
