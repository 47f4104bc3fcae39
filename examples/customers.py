"""Four kinds of customers in a table as people have it: units that differ, categories, a date, cells that are missing.

    python examples/customers.py [customers.csv]

writes the csv (5,000 rows) if a path is given, and beside it customers-truth.csv (of which kind each customer is, for
`dmmc score` and `--truth`), clusters the table and says how many customers came out right.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
from sklearn.pipeline import make_pipeline

import dmmc

KINDS = ("student", "family", "professional", "retired")
MEANS = {  # of each kind of customer
    "age": ((23, 3), (41, 6), (38, 7), (69, 6)),
    "income": ((14_000, 4_000), (52_000, 11_000), (98_000, 19_000), (31_000, 7_000)),
    "visits_per_month": ((9, 2.5), (6, 2), (3, 1.2), (4, 1.5)),
    "basket": ((14, 5), (96, 22), (61, 17), (33, 9)),
    "share_online": ((0.85, 0.08), (0.45, 0.12), (0.7, 0.12), (0.12, 0.07)),
    "returns": ((0.6, 0.5), (2.1, 0.8), (1.4, 0.7), (0.3, 0.3)),
}
PLANS = {"basic": (0.7, 0.2, 0.1, 0.5), "plus": (0.25, 0.6, 0.3, 0.4), "premium": (0.05, 0.2, 0.6, 0.1)}
REGIONS = ("north", "south", "east", "west")
MEMBER = (0.3, 0.7, 0.6, 0.8)
JOINED = (2023, 2017, 2019, 2011)


def make_customers(n: int = 5000, seed: int = 0, missing: float = 0.03) -> tuple[pyarrow.Table, np.ndarray]:
    """A table of n customers, and the kind of each."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(4, n, p=(0.2, 0.35, 0.25, 0.2))
    columns: dict[str, np.ndarray] = {}
    for name, of_kind in MEANS.items():
        mean, spread = np.array(of_kind).T
        columns[name] = np.round(np.maximum(0, rng.normal(mean[kind], spread[kind])), 2)
    shares = np.array(list(PLANS.values()))[:, kind].T
    columns["plan"] = np.array(list(PLANS))[(rng.random(n)[:, None] > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)]
    columns["region"] = rng.choice(REGIONS, n)
    columns["member"] = rng.random(n) < np.array(MEMBER)[kind]
    years = np.clip(rng.normal(np.array(JOINED)[kind], 1.5), 2000, 2025.9)
    columns["joined"] = np.datetime64("1970-01-01") + ((years - 1970) * 365.25).astype("timedelta64[D]")
    ids = [f"C{number:06d}" for number in rng.permutation(n)]
    table = {name: pyarrow.array(values, mask=rng.random(n) < missing) for name, values in columns.items()}
    return pyarrow.table({"customer_id": ids, **table}), kind


def main() -> None:
    table, kind = make_customers()
    if len(sys.argv) > 1:
        path = Path(sys.argv[1])
        pyarrow.csv.write_csv(table, path)
        truth = pyarrow.table({"customer_id": table["customer_id"], "segment": np.array(KINDS)[kind]})
        pyarrow.csv.write_csv(truth, path.with_name(f"{path.stem}-truth.csv"))
    pipeline = make_pipeline(dmmc.TablePreparation(), dmmc.CuttingPlaneMMC(n_clusters=4))
    with warnings.catch_warnings(record=True) as notes:  # shown as sentences, without the places in code
        warnings.simplefilter("always", dmmc.ClusteringWarning)
        labels = pipeline.fit_predict(table)
    for note in notes:
        print(f"note: {note.message}")
    found = dmmc.score(labels, kind)
    print(f"accuracy {found['accuracy']:.3f}, NMI {found['nmi']:.3f}")


if __name__ == "__main__":
    main()
