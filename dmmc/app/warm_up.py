"""Kernels compiled before they are needed: by `dmmc warmup`, and by a first fit, which compiles on two cores at once.

numba compiles a kernel when it is first called with arrays of a type, and keeps what it made in files; later processes
load those. A part is what a small call of each of its kernels compiles. Two processes must not compile one kernel at
the same time (each would overwrite the other's files), so parts that share no kernel go to a second process.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Csr
from dmmc.data.dataset import Rows
from dmmc.data.open import open_dataset
from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.features import graph
from dmmc.kernels import csr_pass, dense_pass
from dmmc.machine import count_threads
from dmmc.master import active_set
from dmmc.master.dual_qp import solve
from dmmc.model.losses import LOSSES

ALONE = ("master", "graph")
"""Parts that share no kernel with any other."""
PATIENCE = 300
"""Seconds to wait for the second process; what it has not compiled then is compiled where it is needed."""


def _compile_master() -> None:
    """The small problem over cutting planes."""
    solve(np.eye(2), np.array([1.0, 0.5]), np.array([[0.5], [-0.5]]), 1.0, 0.1)


def _compile_graph() -> None:
    """Neighbours."""
    points = np.random.default_rng(0).random((30, 3), np.float32)
    graph.Index(points, 1).nearest(points, 3)


def _make_rows(kind: str) -> Array | Csr:
    """A few rows of a kind, such as "float32" or "csr float32"."""
    *sparse, dtype = kind.split()
    values: Any = (np.arange(60).reshape(12, 5) % 7).astype(dtype)
    if sparse:
        from scipy.sparse import csr_array

        values = csr_array(values)
    rows: Array | Csr = open_dataset(values).blocks[0].rows
    return rows


def _compile_rows(kind: str) -> None:
    """Passes over rows of a kind with several hyperplanes."""
    rows = _make_rows(kind)
    kernels.moments(rows, np.zeros(5))
    kernels.squared_distances(rows, np.zeros(5), np.ones(5))
    kernels.losses(rows, np.ones((1, 2, 5)), np.zeros((1, 2)), LOSSES["hinge"].table, np.array([kernels.OWN]))


def _compile_two(kind: str) -> None:
    """What two clusters take besides, and principal directions."""
    rows = _make_rows(kind)
    kernels.weighted_sum(rows, np.ones((12, 1)))
    table, modes = LOSSES["hinge"].table, np.array([kernels.OWN])
    kernels.losses(rows, np.ones((1, 1, 5)), np.zeros((1, 1)), table, modes, wide=False)


KINDS = ("float64", "float32", "uint8", "csr float64", "csr float32")
PARTS: dict[str, Callable[[], None]] = {"master": _compile_master, "graph": _compile_graph}
PARTS |= {kind: partial(_compile_rows, kind) for kind in KINDS}
PARTS |= {f"{kind}, two clusters": partial(_compile_two, kind) for kind in KINDS}


def compile_parts(names: Sequence[str], tell: Callable[[str], Any] | None = None) -> None:
    """Compile these parts, or load them where they have been compiled; on two cores where there are two.

    tell : called with each part that this process is about to compile
    """
    mine = list(names)
    theirs = [name for name in names if name in ALONE] if count_threads(None) > 1 else []
    with _second_process(theirs) as helper:
        if helper:
            mine = [name for name in names if name not in theirs]
        for name in mine:
            if tell is not None:
                tell(name)
            PARTS[name]()


@contextmanager
def _second_process(names: Sequence[str]) -> Iterator[bool]:
    """Another process that compiles parts meanwhile; False where there is nothing for it to do, or it cannot start."""
    if not names or not Path(sys.executable or "none").name.startswith("python"):
        yield False
        return
    code = f"import sys; sys.path[:] = {sys.path!r}; from dmmc.app.warm_up import PARTS; "
    code += f"[PARTS[name]() for name in {list(names)!r}]"
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        helper = subprocess.Popen([sys.executable, "-c", code], **quiet)  # type: ignore[call-overload]
    except OSError:
        yield False
        return
    try:
        yield True
        with suppress(subprocess.TimeoutExpired):
            helper.wait(PATIENCE)
    finally:
        helper.kill()
        helper.wait()


def find_missing(model: SourceClusterer, dataset: Rows) -> list[str]:
    """Parts that a fit of this model to these rows needs and that no process has compiled here.

    Nothing where one process would have to compile them one after the other anyway: it does so when it needs them.
    """
    kind = "csr float32" if dataset.is_sparse else str(dataset.dtype)  # sparse rows are mostly transformed first
    by_graph = model.method == "auto" or getattr(model, "start_name", "") == "graph"
    wanted = {
        "master": (active_set.ascend, model.method in ("auto", "cpmmc", "pairwise")),
        "graph": (graph.rank_candidates, by_graph),
        "float32": (dense_pass.dense_many, by_graph or kind == "float32"),
        kind: (csr_pass.csr_many if kind.startswith("csr") else dense_pass.dense_many, kind in PARTS),
    }
    missing = [name for name, (kernel, needed) in wanted.items() if needed and not _is_compiled(kernel)]
    return missing if any(name in ALONE for name in missing) and len(missing) > 1 else []


def _is_compiled(kernel: Any) -> bool:
    """Whether numba keeps a kernel, for any type of array, that is newer than its source."""
    folder, name = kernel.stats.cache_path, f"{Path(kernel.py_func.__code__.co_filename).stem}.{kernel.__name__}"
    if folder is None:
        return True  # it keeps nothing: it would be compiled again
    with suppress(OSError):
        source = os.stat(kernel.py_func.__code__.co_filename).st_mtime
        return any(found.stat().st_mtime >= source for found in Path(folder).glob(f"{name}-*.nbi"))
    return False
