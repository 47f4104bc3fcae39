"""A stream: rows come in batches, none is kept, and the model goes on from each; it is saved and read in between."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import dmmc


def batches(size: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Handwritten 3s and 8s that come in, a little noisy, in no order; the truth is for the last line only."""
    X, y = load_digits(return_X_y=True)
    X, y = X[(y == 3) | (y == 8)], y[(y == 3) | (y == 8)]
    rng = np.random.default_rng(0)
    for _ in range(count):
        chosen = rng.integers(len(X), size=size)
        yield (X[chosen] + rng.normal(scale=1.0, size=(size, X.shape[1]))).astype(np.float32), y[chosen]


def main() -> None:
    stream = batches(200, 30)
    first, truth = next(stream)
    with tempfile.TemporaryDirectory() as folder:
        run = dmmc.fit(first, 2, method="rcmmc-sg", out=Path(folder) / "model")
        print(f"first {len(first)} rows: error {dmmc.score(run.labels, truth)['purity_error']:.3f}")
        model = dmmc.load(Path(folder) / "model")
    seen, wrong = 0, 0.0
    for number, (rows, truth) in enumerate(stream, 2):
        labels = model.predict(rows)  # before the model has seen them
        seen += len(rows)
        wrong += len(rows) * dmmc.score(labels, truth)["purity_error"]
        model.partial_fit(rows)
        if number % 10 == 0:
            about = f"objective {model.objective_:.3f}, error on rows not yet seen {wrong / seen:.3f}"
            print(f"after {number} batches: {about}")


if __name__ == "__main__":
    main()
