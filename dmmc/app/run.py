"""A finished fit: its labels, model and history, what its clusters are, and how it is saved."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.app.findings import Findings, look
from dmmc.data.dataset import Rows
from dmmc.engine import Engine, Local, Streamed
from dmmc.estimators.local_engine import make_local_engine
from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.features import maps
from dmmc.profile.describe import TOLD, ClusterProfile, describe_clusters, list_lines, name_columns
from dmmc.profile.units import Units
from dmmc.report import Comparison, Page
from dmmc.report.circle import is_on_circle
from dmmc.report.figures import draw_map
from dmmc.report.summary import MOST_CLUSTERS, Summary, summarise
from dmmc.results import contents
from dmmc.results.contents import check_image_shape
from dmmc.results.folder import Out

SURE = 0.9
"""Confidence of a row that is sure of its cluster, as the report counts them."""


class Run:
    """A finished fit.

    Attributes
    ----------
    labels : int32 array of n cluster numbers; 0 is the largest cluster, unless `match` gave earlier numbers; -1 is no
        cluster, where `unassigned` asked for it
    ids : array of n names of the rows that were labelled, in the order of `labels`; None where rows have none and all
        were labelled; their numbers, from 0, where missing="drop" left some out
    confidence : array of n numbers from 0 to 1, how sure each label is
    runner_up : int32 array, the next best cluster of each row
    names : one short name a cluster, of what sets it apart
    model : the fitted estimator
    history : one dict a pass: objective, gap, planes, flips, seconds
    choices : what was chosen for this fit
    info : what `run.json` holds: parameters, versions, data, timings, warnings
    """

    def __init__(
        self,
        model: SourceClusterer,
        dataset: Rows,
        info: dict[str, Any],
        image_shape: tuple[int, ...] | None = None,
        findings: Findings | None = None,
        memory: int | str | None = None,
    ) -> None:
        self.model = model
        self.info = info
        self._dataset = dataset
        self._image_shape = image_shape
        self._findings = findings
        self._memory = memory
        self._truth: Comparison | None = None

    @property
    def labels(self) -> NDArray[np.int32]:
        """Cluster of each training row."""
        labels: NDArray[np.int32] = self.model.labels_ if self._findings is None else self._findings.labels
        return labels

    @property
    def ids(self) -> NDArray[Any] | None:
        """Names of the rows that have labels; numbers (int64) where they have no names, and some were left out."""
        ids, preparation = self._dataset.row_ids, self.model.preparation_
        if ids is not None and preparation is not None and preparation.id_ is None and preparation.missing == "drop":
            return ids.astype(np.int64)
        return ids

    @property
    def confidence(self) -> NDArray[np.float64]:
        """How sure the label of each row is: .5 where two clusters tie, towards 1 far from all borders."""
        return self._look().confidence

    @property
    def runner_up(self) -> NDArray[np.int32]:
        """The next best cluster of each row."""
        return self._look().standing.runner_up

    @property
    def names(self) -> list[str]:
        """A short name of each cluster."""
        return [profile.name for profile in self._describe()]

    @property
    def history(self) -> list[dict[str, Any]]:
        """One dict a pass."""
        return self.model.history_

    @property
    def choices(self) -> dict[str, Any]:
        """What was chosen, and what happened."""
        return self.model.choices_

    def profile(self, n_features: int = TOLD) -> Any:
        """What each cluster is: its name and size, and the raw columns that set it apart from all other rows.

        Parameters
        ----------
        n_features : how many columns of each cluster

        Returns
        -------
        A pandas frame, or a list of dicts where pandas is not installed, with a line for each cluster and column:
        `cluster`, `name`, `size`, `feature`, `inside` and `outside` (its mean over the cluster's rows and over all
        others, in a table's own units: a day of dates; of a category or truth value the share of rows that have it),
        `distinctive` (its correlation with being in the cluster, -1 to 1; the most distinctive first)
        """
        lines = list_lines(self._describe(n_features))
        try:
            import pandas
        except ImportError:
            return lines
        return pandas.DataFrame(lines)

    def plot(self) -> Any:
        """The map of sampled rows, as the report draws it: a figure of plotly's."""
        from plotly.graph_objects import Figure

        with self._open_engine() as engine:
            summary = self._summarise(engine)
        ids, names = self._dataset.row_ids, self._describe()
        page = Page.of_map(summary, names, None if ids is None else [str(ids[row]) for row in summary.map_rows])
        drawn = draw_map(page)
        return Figure(data=drawn["data"], layout=drawn["layout"])

    def _repr_html_(self) -> str:
        """A table of the clusters, for notebooks."""
        lines = "".join(
            f"<tr><td>{p.cluster}</td><td>{escape(p.name)}</td><td>{p.size:,}</td>"
            f"<td>{escape(', '.join(feature.name for feature in p.features[:5]))}</td></tr>"
            for p in self._describe()
        )
        head = "".join(f"<th>{word}</th>" for word in ("cluster", "name", "rows", "set apart by"))
        told = f"{len(self.labels):,} rows in {self.model.count_clusters()} clusters, by {self.choices['method']}"
        return f"<p>{escape(told)}</p><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"

    @property
    def _units(self) -> Units | None:
        """Those of the table that the rows were made of."""
        return None if self.model.preparation_ is None else self.model.preparation_.units

    def _summarise(self, engine: Engine) -> Summary:
        found = self._look(engine)
        return summarise(
            engine.dataset,
            self.model.decision(),
            found.standing,
            means=found.means,
            units=self._units,
            images=self._image_shape is not None,
            standardised=self.choices["standardised"],
            subspace=self.model.subspace(),
        )

    def save(self, path: str | Path, *, overwrite: bool = False, scores: bool = False, image_shape: Any = None) -> Path:
        """Write labels, model, history, run.json and report to a folder, as `out=` does."""
        check_image_shape(image_shape, self._dataset.n_features)
        self._image_shape = image_shape or self._image_shape
        with Out(path, overwrite=overwrite) as out, self._open_engine() as engine:
            for line in self.history:
                out.log(line)
            self._finish(out, engine, scores)
        return Path(path)

    def _open_engine(self) -> Local | Streamed:
        return make_local_engine(self._dataset, self.model.n_jobs, memory=self._memory)

    def _look(self, engine: Engine | None = None) -> Findings:
        """What passes over the rows find, once; by threads of this process if no engine is given."""
        if self._findings is None:
            if engine is not None:
                self._findings = look(engine, self.model)
            else:
                with self._open_engine() as local:
                    self._findings = look(local, self.model)
        return self._findings

    def _describe(self, n_features: int = TOLD) -> list[ClusterProfile]:
        rows = self._dataset
        names = name_columns(rows.feature_names, rows.n_features, self._image_shape)
        units = self._units
        return describe_clusters(self._look().means, names, n_features, None if units is None else units.kinds)

    def _finish(self, out: Out, engine: Engine, scores: bool) -> None:
        decision = self.model.decision()
        found, rows = self._look(engine), self._dataset
        profiles = self._describe()
        self.info["names"] = [profile.name for profile in profiles]
        self.model.cluster_names_ = np.array(self.info["names"], object)
        self.info["map"] = "circle" if is_on_circle(decision) else "directions"
        self.info["sure"] = float(np.mean(found.confidence >= SURE))
        out.finish(
            contents.Result(
                labels=self.labels,
                scores=contents.Scores(decision[1].n_scores, engine.rows(maps.scores, decision)) if scores else None,
                row_ids=rows.row_ids,
                confidence=found.confidence,
                runner_up=found.standing.runner_up,
                profiles=profiles,
                centres=found.means.centres,
                model=self.model.to_arrays(),
                run=self.info,
                summary=self._summarise(engine),
                feature_names=rows.feature_names,
                units=self._units,
                image_shape=self._image_shape,
                truth=self._truth,
            )
        )

    def __repr__(self) -> str:
        sizes = np.bincount(self.labels[self.labels >= 0]).tolist()
        told = (
            f"{sizes[:MOST_CLUSTERS]} and {len(sizes) - MOST_CLUSTERS:,} more"
            if len(sizes) > MOST_CLUSTERS
            else f"{sizes}"
        )
        return f"Run({self.choices['method']}: {len(self.labels)} rows in clusters of {told})"
