"""One pass over the data (scores, losses, weighted sums) against what the machine can do. One thread.

Times are the least of several rounds, each of which does everything that is compared once; rounds during which other
programs were at work are run again (`--patience`), and `machine.disturbed` counts those that were kept all the same.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured` (`share_inside`, `share_from`, `rounds`, `milliseconds` by data set and pass,
`read_gb_per_second`). Timings are not pass or fail: the exit code is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import data_sets
import numpy as np
from _report import Patience, Report, arguments, destination, headline, side_by_side
from numba import njit
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from dmmc import fit, kernels
from dmmc.data.blocks import Block, Csr
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.errors import InputError
from dmmc.kernels import OWN, Sums
from dmmc.model.losses import LOSSES

Array = NDArray[Any]
Work = dict[str, Callable[[], Any]]

MANY = 16
USUAL_SHARE = 0.35
"""Share of the rows inside the margin where there is no MNIST to measure it on."""
HINGE = LOSSES["hinge"].table


@njit(nogil=True, fastmath=True)
def read(numbers: Any) -> Any:
    """Sum of an array: reads it as fast as one thread can."""
    total = np.float32(0)
    for i in range(numbers.size):
        total += numbers[i]
    return total


def share_inside(small: bool) -> tuple[float, str]:
    """Share of the rows inside the margin at the end of a fit of MNIST, and where it is from."""
    try:
        X, _ = data_sets.load("mnist")
    except InputError:
        return USUAL_SHARE, "assumed: no MNIST at hand"
    rows = X[:: 70 if small else 7]
    f = fit(rows, 2).model.decision_function(rows)
    return float(np.mean(np.abs(f) < 1)), f"end of a default fit of {len(rows)} rows of MNIST, k = 2"


# ------------------------------------------------------------------------------------------------------ hyperplanes


def directions(d: int, K: int, rng: np.random.Generator) -> Array:
    """(MANY / K, K, d) random hyperplanes: MANY of them, or groups that compete for the rows."""
    return rng.standard_normal((MANY // K, K, d))


def through(rows: Any, W: Array, share: float) -> tuple[Array, Array]:
    """Each group moved to the middle of the rows, and scaled so that `share` of the rows is inside the margin."""
    G, K, d = W.shape
    some = rows[np.linspace(0, rows.shape[0] - 1, 4000).astype(int)].astype(np.float64)
    mean = np.asarray(some.mean(axis=0)).ravel()
    f = np.asarray(some @ W.reshape(G * K, d).T).reshape(-1, G, K) - W @ mean
    top = np.sort(f, axis=2)
    margin = np.abs(f[:, :, 0]) if K == 1 else top[:, :, -1] - top[:, :, -2]
    W = W / np.quantile(margin, share, axis=0)[:, None, None]
    return W, -(W @ mean)


def one_pass(rows: Array | Csr, W: Array, b: Array) -> Sums:
    """What a pass of the solver does with a block: labels, losses, sums; the fastest kernel for a single hyperplane."""
    modes = np.full(len(W), OWN)
    return kernels.losses(rows, W, b, HINGE, modes, wide=W.shape[0] * W.shape[1] > 1, keep=True)[0]


# ------------------------------------------------------------------------------------------------------------- dense


def dense(report: Report, n: int, d: int, share: float, rounds: int) -> None:
    """float32 against the memory, bytes against float32, many hyperplanes against one, two threads against one."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (n, d), dtype=np.uint8)
    large = small.astype(np.float32)
    W, b = through(small, directions(d, 1, rng), share)
    rivals, offsets = through(small, directions(d, MANY, rng), share)
    flat = large.reshape(-1)
    work: Work = {"read float32": partial(read, flat)}
    for name, rows in (("float32", large), ("uint8", small)):
        work |= {
            f"{name} x 1": partial(one_pass, rows, W[:1], b[:1]),
            f"{name} x {MANY}": partial(one_pass, rows, W, b),
            f"{name} k = {MANY}": partial(one_pass, rows, rivals, offsets),
        }
    t = side_by_side(work, rounds, report.patience)
    size = f"{n:,} x {d:,}"
    keep(report, size, t)
    report.measured.setdefault("read_gb_per_second", {})[size] = large.nbytes / t["read float32"] / 1e9
    single = t["float32 x 1"]
    report.add(f"{size}: float32 pass, of read bandwidth", t["read float32"] / single, ms(single), least=0.8)
    report.add(f"{size}: uint8 pass / float32 pass", t["uint8 x 1"] / single, ms(t["uint8 x 1"]), most=0.5)
    for name, most in (("float32", 4.0), ("uint8", 8.0)):
        one, many, rivalry = (t[f"{name} {which}"] for which in ("x 1", f"x {MANY}", f"k = {MANY}"))
        report.add(f"{size}: {name}, {MANY} hyperplanes / one", many / one, ms(many), most=most)
        report.add(f"{size}: {name}, {MANY} clusters / one hyperplane", rivalry / one, ms(rivalry), most=most)
    for name, rows in (("float32", large), ("uint8", small)):
        threads(report, size, name, rows, W, b, rounds)


def threads(report: Report, size: str, name: str, rows: Array, W: Array, b: Array, rounds: int) -> None:
    """The engine with one thread and with two."""
    dataset = open_dataset(rows)

    def work(block: Block, planes: tuple[Array, Array]) -> Sums:
        return one_pass(block.rows, *planes)

    with Local(dataset, 1) as one, Local(dataset, 2) as two:
        for count in (1, MANY):
            planes = W[:count], b[:count]
            t = side_by_side(
                {
                    f"engine {name} x {count}, 1 thread": partial(one.run, work, planes),
                    f"engine {name} x {count}, 2 threads": partial(two.run, work, planes),
                },
                rounds,
                report.patience,
            )
            keep(report, size, t)
            alone, both = t.values()
            report.add(f"{size}: {name} x {count}, engine, 1 thread / 2 threads", alone / both, ms(both))


# --------------------------------------------------------------------------------------------------------------- CSR


def csr(report: Report, name: str, matrix: Any, share: float, rounds: int) -> None:
    """Our pass against the two products of scipy that it takes the place of (which compute no losses)."""
    rng = np.random.default_rng(1)
    matrix = sparse.csr_array(matrix)
    W, b = through(matrix, directions(matrix.shape[1], 1, rng), share)
    rows = Csr(matrix.data, matrix.indices.astype(np.uint32), matrix.indptr.astype(np.int64), matrix.shape[1])
    w = W[0, 0].astype(np.float32)
    f = matrix @ w + b[0, 0]
    coef = np.where(np.abs(f) < 1, np.sign(f), 0).astype(np.float32)
    across = matrix.T
    t = side_by_side(
        {
            "csr x 1": partial(one_pass, rows, W[:1], b[:1]),
            "scipy X @ w": lambda: matrix @ w,
            "scipy X.T @ c": lambda: across @ coef,
            f"csr x {MANY}": partial(one_pass, rows, W, b),
        },
        rounds,
        report.patience,
    )
    n, d = matrix.shape
    size = f"CSR {name} {n:,} x {d:,}"
    keep(report, size, t)
    ours, peer = t["csr x 1"], t["scipy X @ w"] + t["scipy X.T @ c"]
    density = 100 * matrix.nnz / n / d
    detail = f"{ms(ours)} against {ms(peer)}, {density:.1f} % dense"
    report.add(f"{size}: pass / scipy's two products", ours / peer, detail, most=1.0)
    report.add(f"{size}: {MANY} hyperplanes / one", t[f"csr x {MANY}"] / ours, ms(t[f"csr x {MANY}"]))


def random_csr(n: int, d: int, density: float) -> Any:
    """Values and columns at random, the same number in each row."""
    rng = np.random.default_rng(2)
    each = max(1, round(density * d))
    gaps = rng.random((n, each + 1)).cumsum(axis=1)
    columns = (gaps[:, :-1] / gaps[:, -1:] * (d - each)).astype(np.int32) + np.arange(each, dtype=np.int32)
    values = rng.random(n * each, dtype=np.float32)
    return sparse.csr_array((values, columns.ravel(), np.arange(0, n * each + 1, each)), shape=(n, d))


def real_csr(report: Report, share: float, rounds: int) -> None:
    """MNIST (19 %) and newsgroups (0.7 %, its rows repeated to leave the cache), where they are at hand."""
    try:
        digits, _ = data_sets.load("mnist")
        words, _ = data_sets.load("newsgroups_rec")
    except InputError as missing:
        print(missing)
        return
    csr(report, "MNIST", digits.astype(np.float32), share, rounds)
    csr(report, "newsgroups x 40", sparse.vstack([words] * 40, format="csr"), share, rounds)


# -------------------------------------------------------------------------------------------------------------- main


def ms(seconds: float) -> str:
    """For people."""
    return f"{1e3 * seconds:.1f} ms"


def keep(report: Report, size: str, t: dict[str, float]) -> None:
    """Put plain times into the JSON."""
    times = report.measured.setdefault("milliseconds", {}).setdefault(size, {})
    times |= {name: 1e3 * seconds for name, seconds in t.items()}


def main() -> None:
    """Run everything."""
    parser = arguments(__doc__ or "", "kernels")
    parser.add_argument("--rounds", type=int, help="rounds of which the least time counts; default 15, small 2")
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.small else 15)
    report = Report("kernels", options.small, patience=Patience(0 if options.small else options.patience))
    print(headline())
    share, origin = share_inside(options.small)
    report.measured |= {"share_inside": share, "share_from": origin, "rounds": rounds}
    print(f"share of the rows inside the margin: {share:.3f} ({origin}); one thread, least of {rounds} rounds")
    with threadpool_limits(1):
        for n, d in ((4_000, 64), (2_000, 128)) if options.small else ((70_000, 784), (34_000, 2560)):
            dense(report, n, d, share, rounds)
        n = 4_000 if options.small else 70_000
        csr(report, "random", random_csr(n, 784, 0.19), share, rounds)
        csr(report, "random", random_csr(n, 8012, 0.007), share, rounds)
        if not options.small:
            real_csr(report, share, rounds)
    report.write(destination(options.json, "kernels", options.small))


if __name__ == "__main__":
    main()
