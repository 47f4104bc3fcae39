"""A ring around another, by FastEvoMMC: no line parts them, a kernel does; then a map of what the model would say."""

import numpy as np

import dmmc


def rings(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on two circles, and on which one each is; the truth is for the scores only."""
    rng = np.random.default_rng(seed)
    inner = rng.random(n) < 0.5
    radius = np.where(inner, 0.4, 1.0) + rng.normal(scale=0.06, size=n)
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), inner.astype(int)


def main() -> None:
    X, truth = rings(20_000, 0)
    line = dmmc.fit(X, 2, method="cpmmc")
    print(f"cpmmc, a line:            accuracy {dmmc.score(line.labels, truth)['accuracy']:.3f}")
    run = dmmc.fit(X, 2, method="fast-evommc", rank=100, sigma=0.5)
    print(f"fast-evommc, 100 rows:    accuracy {dmmc.score(run.labels, truth)['accuracy']:.3f}")
    unseen, truth = rings(1000, 1)
    print(f"  on rows not seen:       accuracy {dmmc.score(run.model.predict(unseen), truth)['accuracy']:.3f}")
    print(f"  what is left of F:      {run.model.objective_:.3f}, in {run.info['timings']['search']:.1f} s of search")
    across, down = np.meshgrid(np.linspace(-1.2, 1.2, 49), np.linspace(1.2, -1.2, 25))
    found = run.model.predict(np.column_stack([across.ravel(), down.ravel()])).reshape(across.shape)
    print("\n".join("".join(".o"[label] for label in row) for row in found))


if __name__ == "__main__":
    main()
