"""How time and memory of a fit grow: with the rows, with the stored numbers of sparse rows, with the clusters.

Each fit is `cpmmc` with the same number of passes at most, in a process of its own, which first fits a few rows
(compilation). Along `n`: bytes around ten centres, 256 columns, 10⁴ to 2·10⁶ rows. Along `nnz`: 50,000 CSR rows of
float32 in 20,000 columns, 10 to 160 numbers each. Along `k`: 2 to 100 clusters of 50,000 of the first rows. The slope
is that of log seconds (or of log bytes of the peak above what imports hold, the rows included) over log size, along `n`
from 10⁵ rows on. The picture is a PNG beside the JSON.

JSON: `benchmark`, `small`, `machine`, `lines`, `measured`: `records` (a list of `along`, `size`, `seconds`, `passes`,
`peak_bytes`) and `slopes`. Timings are not pass or fail: the exit code is 0.
"""

from __future__ import annotations

import json
import time
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _cluster import blobs, fitted
from _report import Patience, Report, arguments, destination, headline, run_child, status

SIZES = {
    "n": (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000),
    "nnz": (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000),
    "k": (2, 5, 10, 20, 50, 100),
}
SMALL = {"n": (1000, 2000), "nnz": (5000, 10_000), "k": (2, 4)}
FROM = {"n": 100_000}
"""The least size that counts for a slope."""
WANTED = {("n", "seconds"): 1.05, ("nnz", "seconds"): 1.1, ("n", "peak_bytes"): 1.0}
TIMEOUT = 1800.0
Record = dict[str, Any]


@cache
def make_rows(along: str, size: int, small: bool) -> Any:
    """The rows of one point."""
    if along != "nnz":
        n = size if along == "n" else 1000 if small else 50_000
        part = blobs(256, 10)
        return np.concatenate([part(start, min(start + 10_000, n)) for start in range(0, n, 10_000)])
    from scipy.sparse import csr_array

    rng, n, d = np.random.default_rng(0), 500 if small else 50_000, 20_000
    each = size // n
    columns = np.sort(rng.integers(0, d // each, (n, each)) + np.arange(each) * (d // each), axis=1)
    values = rng.random((n, each), np.float32) + 0.1
    return csr_array((values.ravel(), columns.ravel().astype(np.int32), np.arange(0, n * each + 1, each)), shape=(n, d))


def run_one(along: str, size: str, passes: str, small: str) -> None:
    """What a process does: prints what its fit took."""
    k = int(size) if along == "k" else 10
    few = make_rows(along, SMALL[along][0] if along != "k" else 2, small=True)
    fitted(few, k, 2)
    held = status("VmRSS")
    rows = make_rows(along, int(size), small == "True")
    began = time.perf_counter()
    found = fitted(rows, k, int(passes))
    seconds = time.perf_counter() - began
    peak = max(status("VmHWM") - held, 1)
    print(json.dumps({"seconds": seconds, "passes": found.passes, "peak_bytes": peak}))


def find_slope(records: list[Record], along: str, what: str) -> float | None:
    """Of the logarithm of `what` over that of the size."""
    points = [(r["size"], r[what]) for r in records if r["along"] == along]
    wanted = [point for point in points if point[0] >= FROM.get(along, 0)]
    x, y = np.log(np.array(wanted if len(wanted) > 1 else points, float)).T
    return float(np.polyfit(x, y, 1)[0]) if len(x) > 1 else None


def draw(path: Path, records: list[Record], slopes: dict[str, dict[str, float | None]]) -> None:
    """A panel for each way to grow: seconds and bytes, log-log."""
    if find_spec("matplotlib") is None:
        print("no picture: matplotlib is not installed (pip install '.[bench]')")
        return
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(slopes), figsize=(5 * len(slopes), 4.2), layout="constrained", squeeze=False)
    for panel, (along, found) in zip(panels[0], slopes.items(), strict=True):
        own = [r for r in records if r["along"] == along]
        for what, unit in (("seconds", 1.0), ("peak_bytes", 1e9)):
            name = what if what == "seconds" else "GB at the peak"
            slope = "no slope" if found[what] is None else f"slope {found[what]:.2f}"
            panel.plot([r["size"] for r in own], [r[what] / unit for r in own], "o-", label=f"{name}, {slope}")
        panel.set(xscale="log", yscale="log", xlabel=along)
        panel.grid(visible=True, which="both", alpha=0.3)
        panel.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"picture: {path}")


def main() -> None:
    """All sizes, then slopes, lines and the picture."""
    parser = arguments(__doc__ or "", "growth")
    parser.add_argument("--passes", type=int, help="passes at most; default 10, small 2")
    parser.add_argument("--repeats", type=int, help="fits of which the median counts; default 3, small 1")
    parser.add_argument("--along", default=",".join(SIZES), help="n, nnz, k: some of them, with commas")
    options = parser.parse_args()
    small = options.small
    report, records = Report("growth", small, patience=Patience(0 if small else options.patience)), []
    print(headline())
    passes = options.passes or (2 if small else 10)
    for along in options.along.split(","):
        for size in (SMALL if small else SIZES)[along]:
            run = partial(run_child, "growth", "run_one", along, size, passes, small, timeout=TIMEOUT)
            found = [report.patience.until_quiet(run) for _ in range(options.repeats or (1 if small else 3))]
            record = {what: median(one[what] for one in found) for what in found[0]}
            records.append({"along": along, "size": size, **record})
            print(
                f"{along} = {size:>10,d}: {record['seconds']:8.2f} s, {record['peak_bytes'] / 1e6:8.1f} MB", flush=True
            )
    ways = list(dict.fromkeys(r["along"] for r in records))
    slopes = {along: {what: find_slope(records, along, what) for what in ("seconds", "peak_bytes")} for along in ways}
    for along, found in slopes.items():
        for what, slope in found.items():
            wanted = {"most": 2.0 ** WANTED[along, what]} if (along, what) in WANTED else {}
            if slope is not None:
                report.add(f"{what} for twice the {along}", 2.0**slope, f"exponent {slope:.3f}", **wanted)
    report.measured |= {"records": records, "slopes": slopes}
    path = destination(options.json, "growth", small)
    report.write(path)
    draw(path.with_suffix(".png"), records, slopes)


if __name__ == "__main__":
    main()
