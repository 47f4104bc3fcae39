"""Label a few pairs, cluster again: dmmc asks about the rows it is least sure of, and learns from the answers.

python examples/label_a_few_pairs.py                 the digits 8 and 9; true labels play the person who answers
python examples/label_a_few_pairs.py ROWS.zarr -k 3  your rows: it writes pairs.csv, you fill in the column link
                                                     with must or cannot, and run it again
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import dmmc
from dmmc.pairs.io import write


def two_digits() -> tuple[np.ndarray, np.ndarray]:
    """Images of 8 and 9, and which is which."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, [8, 9])
    return X[chosen], y[chosen]


def by_labels(rounds: int, each: int) -> None:
    """Ask, answer and fit again, a few times."""
    X, y = two_digits()
    known: list[tuple[int, int, str]] = []
    run = dmmc.fit(X, 2, constraints=known)
    print(f"{len(X)} rows; no pairs known: error {100 * dmmc.score(run.labels, y)['purity_error']:.1f} %")
    for _ in range(rounds):
        for i, j in dmmc.propose_pairs(X, run, each, constraints=known):
            known.append((int(i), int(j), "must" if y[i] == y[j] else "cannot"))
        run = dmmc.fit(X, 2, constraints=known)
        print(f"{len(known)} pairs known: error {100 * dmmc.score(run.labels, y)['purity_error']:.1f} %")


def by_hand(rows: Path, n_clusters: int, each: int) -> None:
    """Propose pairs the first time; fit with the answers the next time."""
    file = Path("pairs.csv")
    if not file.exists():
        run = dmmc.fit(rows, n_clusters)
        write(file, dmmc.propose_pairs(rows, run, each))
        print(f"{file}: say of each pair whether it must or cannot be together, then run this again")
        return
    run = dmmc.fit(rows, n_clusters, constraints=file, out="result", overwrite=True)
    broken = run.choices["must_links_broken"] + run.choices["cannot_links_broken"]
    print(f"clusters of {np.bincount(run.labels).tolist()} rows, {broken} of the pairs broken; written to result/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=Path)
    parser.add_argument("-k", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=10, help="how many to ask about at a time")
    arguments = parser.parse_args()
    if arguments.rows is None:
        by_labels(3, arguments.pairs)
    else:
        by_hand(arguments.rows, arguments.k, arguments.pairs)


if __name__ == "__main__":
    main()
