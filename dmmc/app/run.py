"""A finished fit: its labels, model and history, and how it is saved."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.dataset import Rows
from dmmc.data.open import open_dataset
from dmmc.engine import Engine, Local
from dmmc.estimators.fitting import MarginClusterer
from dmmc.features import maps
from dmmc.report.summary import summarise
from dmmc.results import contents
from dmmc.results.contents import check_image_shape
from dmmc.results.folder import Out


class Run:
    """A finished fit.

    Attributes
    ----------
    labels : int32 array of n cluster numbers; 0 is the largest cluster
    model : the fitted estimator
    history : one dict a pass: objective, gap, planes, flips, seconds
    choices : what was chosen for this fit
    info : what `run.json` holds: parameters, versions, data, timings, warnings
    """

    def __init__(self, model: MarginClusterer, dataset: Rows, info: dict[str, Any]) -> None:
        self.model = model
        self.info = info
        self._dataset = dataset
        self._image_shape: tuple[int, ...] | None = None

    @property
    def labels(self) -> NDArray[np.int32]:
        """Cluster of each training row."""
        labels: NDArray[np.int32] = self.model.labels_
        return labels

    @property
    def history(self) -> list[dict[str, Any]]:
        """One dict a pass."""
        return self.model.history_

    @property
    def choices(self) -> dict[str, Any]:
        """What was chosen, and what happened."""
        return self.model.choices_

    def save(self, path: str | Path, *, overwrite: bool = False, scores: bool = False, image_shape: Any = None) -> Path:
        """Write labels, model, history, run.json and report to a folder, as `out=` does."""
        check_image_shape(image_shape, self._dataset.n_features)
        with Out(path, overwrite=overwrite) as out, Local(open_dataset(self._dataset)) as engine:
            for line in self.history:
                out.log(line)
            self._finish(out, engine, scores, image_shape or self._image_shape)
        return Path(path)

    def _finish(self, out: Out, engine: Engine, scores: bool, image_shape: tuple[int, ...] | None) -> None:
        decision = self.model.decision()
        f = np.concatenate(list(engine.rows(maps.scores, decision))) if scores else None
        out.finish(
            contents.Result(
                labels=self.labels,
                scores=f[:, 0] if f is not None and f.shape[1] == 1 else f,
                row_ids=self._dataset.row_ids,
                model=self.model.to_arrays(),
                run=self.info,
                summary=summarise(
                    engine.dataset,
                    engine.run,
                    decision,
                    self.labels,
                    images=image_shape is not None,
                    standardised=self.choices["standardised"],
                    subspace=self.model.subspace(),
                ),
                feature_names=self._dataset.feature_names,
                image_shape=image_shape,
            )
        )

    def __repr__(self) -> str:
        sizes = np.bincount(self.labels).tolist()
        return f"Run({self.choices['method']}: {len(self.labels)} rows in clusters of {sizes})"
