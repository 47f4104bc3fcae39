"""Cluster scikit-learn's handwritten digits without their labels, and compare with k-means.

Needs no files and no cluster: ``python examples/digits.py``. The true labels are used for scoring only.
"""

from __future__ import annotations

import time

from sklearn.cluster import KMeans

import dmmc
from dmmc import datasets


def main() -> None:
    X, y = datasets.load("digits")
    print(f"digits: {X.shape[0]} rows, {X.shape[1]} features, 10 clusters wanted\n")
    print(f"{'':18s} {'accuracy':>9s} {'NMI':>6s} {'ARI':>6s} {'seconds':>8s}")

    start = time.perf_counter()
    labels = KMeans(10, n_init=10, random_state=0).fit_predict(X)
    show("k-means", labels, y, time.perf_counter() - start)

    dmmc.fit(X[:200], n_clusters=10, random_state=0)  # compiles the kernels, once per machine
    start = time.perf_counter()
    run = dmmc.fit(X, n_clusters=10, random_state=0)
    show("CuttingPlaneMMC", run.labels, y, time.perf_counter() - start)


def show(name: str, labels: object, truth: object, seconds: float) -> None:
    found = dmmc.score(labels, truth)
    numbers = f"{found['accuracy']:9.3f} {found['nmi']:6.3f} {found['ari']:6.3f} {seconds:8.2f}"
    print(f"{name:18s} {numbers}")


if __name__ == "__main__":
    main()
