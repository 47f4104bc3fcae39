"""In a scikit-learn pipeline: scale, reduce, cluster; then label rows that were not in the fit."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import dmmc


def main() -> None:
    X, y = load_digits(return_X_y=True)
    seen, unseen, _, truth = train_test_split(X, y, test_size=0.25, random_state=0)
    pipeline = make_pipeline(PCA(32, random_state=0), dmmc.CuttingPlaneMMC(n_clusters=10, random_state=0))
    pipeline.fit(seen)
    labels = pipeline.predict(unseen)
    margins = np.sort(pipeline.decision_function(unseen), axis=1)
    sure = margins[:, -1] - margins[:, -2] > 1.0
    print(f"{len(seen)} rows clustered, {len(unseen)} others labelled")
    print(f"accuracy on them      {dmmc.score(labels, truth)['accuracy']:.3f}")
    print(f"outside the margin    {sure.mean():.0%} of them: {dmmc.score(labels[sure], truth[sure])['accuracy']:.3f}")


if __name__ == "__main__":
    main()
