"""`auto`: several clusterings of the same rows, judged without labels; the best is the answer."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dmmc.array_types import Array
from dmmc.choose.judge import CLEARLY, Verdict, choose, judge, link_rows
from dmmc.choose.look import look_at
from dmmc.choose.number_of_clusters import HIGHEST, LOWEST
from dmmc.choose.sample import AXES, Sample, take_sample
from dmmc.choose.tell import LATE
from dmmc.data.dataset import Rows
from dmmc.engine import Engine
from dmmc.errors import (
    ClusteringWarning,
    ConvergenceWarning,
    InputError,
    NotFeasible,
    OutOfTime,
    Warned,
    collect_warnings,
    warn,
)
from dmmc.estimators import parameters
from dmmc.estimators.candidate_keeper import CandidateKeeper, Phases
from dmmc.estimators.checks import attach_weights, check_number, draw_seed
from dmmc.estimators.cutting_plane import CuttingPlaneMMC
from dmmc.estimators.enter_views import prepare_rows
from dmmc.estimators.fitting import MarginClusterer
from dmmc.estimators.least_squares import LeastSquaresMMC
from dmmc.estimators.nearest_centres import NearestCentres
from dmmc.estimators.parameters import (
    ANCHORS_MEANING,
    ANCHORS_RANGE,
    GRAPH_MEANING,
    GRAPH_RANGE,
    MAX_CLUSTERS,
    Checked,
    RunParameters,
    Words,
    document,
    parameter,
)
from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.features import transforms
from dmmc.machine import count_threads
from dmmc.model.geometry import Geometry, measure
from dmmc.model.label_counts import count_labels
from dmmc.pairs.io import Links
from dmmc.process_state import use_one_blas_thread
from dmmc.solvers.driver import Callback, Keeper
from dmmc.solvers.medoid import rand_index
from dmmc.time_limit import TimeLimit

SMOOTH = "cpmmc, smooth"
"""The name of the candidate that smooths rows along the graph."""
NEAR = "near the lowest, and the others agree most with it"
NEAR_WIDE = f"near the lowest, and rows have more than {AXES} columns or are sparse"
GRAPH_ROWS = 1_000_000
"""Rows beyond which no graph of all of them is made: one of anchors is, unless graph="rows"."""
PASSES = 1000
"""Of a search, at most: what the time that is left is guessed by."""


def read_numbers(n_clusters: Any) -> tuple[int, int]:
    """The least and the largest number of clusters that is asked for: a number, "auto" or "5..20"."""
    wanted = f'a whole number of clusters, 2 to {MAX_CLUSTERS:,}, "auto", or a range such as "5..20"'
    if isinstance(n_clusters, str):
        if n_clusters == "auto":
            return LOWEST, HIGHEST
        found = re.fullmatch(r"(\d+)\.\.(\d+)", n_clusters)
        low, high = (int(part) for part in found.groups()) if found else (0, 0)
        if not 2 <= low <= high <= MAX_CLUSTERS:
            raise InputError(f"n_clusters is {n_clusters!r}; {wanted} is wanted.")
        return low, high
    check_number("n_clusters", n_clusters, wanted, 1, MAX_CLUSTERS + 1, whole=True)
    return int(n_clusters), int(n_clusters)


@dataclass
class Candidate:
    """One clustering that is tried."""

    name: str
    model: MarginClusterer
    parameters: Mapping[str, Any]
    """Of `dmmc.fit`, to fit it alone; empty where there is no such method."""
    seconds: float = 0.0
    verdict: Verdict | None = None
    why_not: str = ""
    told: Sequence[Warned] = field(default_factory=list)

    def describe(self, chosen: bool) -> dict[str, Any]:
        """As `run.json` has it."""
        done = self.verdict is not None
        return {
            "name": self.name,
            "chosen": chosen,
            "score": self.verdict.score if self.verdict is not None else None,
            "sizes": count_labels(self.model.labels_, int(self.model.n_clusters)).tolist() if done else None,
            "seconds": round(self.seconds, 3),
            "why_not": self.why_not,
            "parameters": dict(self.parameters),
        }


@document
@dataclass(eq=False, repr=False)
class AutoMMC(RunParameters, SourceClusterer):
    """Chooses for you: tries k-means and maximum margin clusterings, keeps the one that cuts fewest near rows apart.

    Candidates are k-means, `cpmmc` from its labels, `cpmmc` on rows that are smoothed along the graph of neighbours
    (rows of at most 64 columns), and `lsmmc` with all that it chooses by itself (transform of rows, graph, text
    recipe). Each is judged on graphs of the nearest neighbours of a sample of rows, without a label: the normalised
    cut. Of those with nearly the lowest, the one that agrees most with the others is kept; for rows of more than 64
    columns (images, features of networks, words) it is `lsmmc`.

    [parameters]

    Attributes
    ----------
    labels_ : int32 array of n labels, what `predict` gives on the training rows; 0 is the largest cluster
    n_clusters_ : int, how many clusters there are
    choices_ : dict: `candidates`, what was tried; `n_clusters`, evidence for their number where it was looked for
    candidate_labels_ : dict, the labels of each candidate by its name
    coef_, intercept_, objective_, n_iter_, history_ : of the candidate that was chosen
    n_features_in_, feature_names_in_
    """

    most_clusters = MAX_CLUSTERS

    n_clusters: int | str = parameter(
        "auto",
        Checked(f'a whole number of clusters, 2 to {MAX_CLUSTERS:,}, "auto", or a range such as "5..20"', read_numbers),
        'how many clusters; "auto" suggests a number from 2 to 20, and says what speaks for it',
    )
    _: KW_ONLY
    effort: str = parameter(
        "balanced",
        Words(("fast", "balanced", "best")),
        'how much to try: "fast" makes no graph of all rows; "best" adds margins between features of the graph and of '
        "a kernel",
    )
    graph: str = parameter("auto", GRAPH_RANGE, GRAPH_MEANING)
    n_anchors: int | str = parameter("auto", ANCHORS_RANGE, ANCHORS_MEANING)

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return "auto"

    @property
    def max_passes(self) -> int:
        """Passes that a candidate makes at most."""
        return PASSES

    @property
    def _has_categories(self) -> bool:
        """Whether rows are of a table with categories, whose columns are on one scale already."""
        return self.preparation_ is not None and self.preparation_.has_categories

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        parameters.check_parameters(self)

    def plain_params(self) -> dict[str, Any]:
        """Parameters that a file can hold; the number of clusters is the one that was found."""
        params = super().plain_params()
        return {**params, "n_clusters": self.n_clusters_}

    def fit_on(
        self,
        engine: Engine,
        *,
        sample_weight: ArrayLike | None = None,
        links: Links | None = None,
        listener: Callback | None = None,
        keeper: Keeper | None = None,
        limit: TimeLimit | None = None,
        phases: Phases | None = None,
    ) -> Self:
        """Find the clusters of an engine's rows: try, judge, keep the best.

        `phases` is filled with what candidates have made, for whoever goes on with the same rows.

        1. a sample of rows, on the scale and with the transform that candidates on raw rows will have
        2. the number of clusters, where it is asked for, and whether there is any structure
        3. each candidate; one that fails or runs out of time is left out, unless it is the first
        4. the verdicts
        """
        limit = TimeLimit(self.max_seconds) if limit is None else limit
        seed = draw_seed(self.random_state)
        rows = attach_weights(engine.dataset, sample_weight)
        low, high = read_numbers(self.n_clusters)
        self._refuse_few_rows(rows, low)
        self._set_columns(rows)
        self.candidate_labels_: dict[str, Array] = {}
        engine.use(rows)
        if high == 1:
            self.n_clusters_ = 1
            self._put_all_in_one_cluster(engine, seed)
            return self
        if listener is not None:
            listener({"phase": "measure"})
        sample, geometry, by_angle, weights = self._take_sample(engine, low, seed, limit)  # 1
        numbers = (low, high) if low < high or isinstance(self.n_clusters, str) else low
        with use_one_blas_thread():  # 2
            places, found = look_at(
                sample.places,
                numbers,
                by_angle,
                geometry.unclear and rows.n_features <= AXES and not self._has_categories,
                seed,
                count_threads(self.n_jobs),
                limit,
            )
        sample, scale = sample._replace(places=places), "standard" if found.on_one_scale else self.scale
        self.n_clusters_, notes = found.n_clusters, found.tell()
        candidates, fingerprint = self._propose(rows, seed, weights, scale), geometry.fingerprint
        phases = {} if phases is None else phases
        for candidate in candidates:  # 3
            engine.use(rows)
            if candidate.name == "cpmmc":
                candidate.model.set_params(init=candidates[0].model.labels_)
            own = CandidateKeeper(keeper, candidate.name, fingerprint, phases)
            self._try(candidate, candidate is candidates[0], engine, own, listener, limit)
            if candidate.why_not:
                continue
            self.candidate_labels_[candidate.name] = candidate.model.labels_
        engine.use(rows)
        self._judge(candidates, sample, phases, rows)  # 4
        self._conclude(candidates, sample.rows, notes, fingerprint, by_angle or rows.n_features > AXES)
        return self

    def _judge(self, candidates: Sequence[Candidate], sample: Sample, phases: Phases, rows: Rows) -> None:
        """Give a verdict on each clustering: on the axes of all rows that a candidate has made, else on the sample."""
        made = [arrays["rows"] for (_, phase), arrays in phases.items() if phase == "axes" and "rows" in arrays]
        threads = count_threads(self.n_jobs)
        with use_one_blas_thread():
            if made:
                links = link_rows(sample.rows, made[0], threads)
            else:
                inner = link_rows(np.arange(len(sample.rows)), sample.places, threads)
                links = inner._replace(rows=sample.rows, who=sample.rows[inner.who])
            for candidate in candidates:
                labels = self.candidate_labels_.get(candidate.name)
                if labels is not None:
                    k, weight = self.n_clusters_, rows.weight
                    sizes = count_labels(labels, k) if weight is None else np.bincount(labels, weight, k)
                    candidate.verdict = judge(links, labels, sizes)

    def _take_sample(self, engine: Engine, k: int, seed: int, limit: TimeLimit) -> tuple[Sample, Geometry, bool, bool]:
        """A sample of rows, the data's geometry, whether rows are compared by angle, and hold weights of words."""
        first = NearestCentres(k, transform="auto", scale=self.scale, random_state=seed, n_jobs=self.n_jobs)
        with (
            collect_warnings(),  # the candidates say it again
            use_one_blas_thread(),
            prepare_rows(first, engine, seed, limit) as (inner, transform, scale),
        ):
            geometry, _ = measure(inner.dataset, inner.rows, scale)
            by_angle = inner.dataset.is_sparse and (transform is None or transform.kind != "log-normalise")
            weights = transform is None and transforms.are_weights(
                engine.dataset, transforms.look_at_rows(engine.dataset, engine.rows)
            )
            return take_sample(inner.dataset, geometry, seed, by_angle), geometry, by_angle, weights

    def _propose(self, rows: Rows, seed: int, weights: bool, scale: str) -> list[Candidate]:
        """Candidates, from simple to not so simple; weights of words are damped by a root, as BM25 damps counts."""
        common = {name: getattr(self, name) for name in ("min_size", "max_size", "n_jobs", "max_seconds", "callbacks")}
        graph: dict[str, Any] = {"graph": self.graph, "n_anchors": self.n_anchors}
        common |= {"n_clusters": self.n_clusters_, "random_state": seed, "scale": scale}
        scaled = {"scale": scale} if scale != "auto" else {}
        asked = {name: value for name, value in graph.items() if value != "auto"} | scaled
        more: dict[str, Any]
        found = [
            Candidate("k-means", NearestCentres(transform="auto", **common), {}),
            Candidate(
                "cpmmc", CuttingPlaneMMC(transform="auto", **common), {"method": "cpmmc", "transform": "auto", **scaled}
            ),
        ]
        if not rows.is_sparse and rows.n_features <= AXES and self.effort != "fast":
            more = {"features": "smooth", "init": "k-means", "transform": "auto"}
            smooth = CuttingPlaneMMC(**more, **graph, **common)
            found.append(Candidate(SMOOTH, smooth, {"method": "cpmmc", **more, **asked}))
        if rows.is_sparse or self.effort != "fast":
            more = {"transform": "sqrt-unit"} if weights else {}
            found.append(
                Candidate("lsmmc", LeastSquaresMMC(**more, **graph, **common), {"method": "lsmmc", **more, **asked})
            )
        if self.effort == "best":
            more = {"features": "spectral", "init": "graph", "transform": "auto"}
            found.append(
                Candidate(
                    "cpmmc, spectral", CuttingPlaneMMC(**more, **graph, **common), {"method": "cpmmc", **more, **asked}
                )
            )
            if not rows.is_sparse:
                more = {"features": "nystroem", "init": "k-means"}
                found.append(
                    Candidate("lsmmc, kernel", LeastSquaresMMC(**more, **common), {"method": "lsmmc", **more, **scaled})
                )
        for candidate in found:
            if self.n_clusters_ > candidate.model.most_clusters:
                candidate.why_not = f"it takes at most {candidate.model.most_clusters:,} clusters"
            by_rows = candidate.model.wants_graph and self.graph == "rows"
            if rows.n_rows > GRAPH_ROWS and by_rows and not rows.is_sparse:
                candidate.why_not = (
                    f"a graph of more than {GRAPH_ROWS:,} rows would take long: graph='anchors' is for them"
                )
            by_graph = candidate.model.wants_graph or candidate.name == SMOOTH
            if by_graph and self._has_categories:
                # and a cut between categories costs nothing, whatever the numbers say: the judge would prefer it
                candidate.why_not = "the nearest rows of a table with categories are those of the same categories"
        return found

    def _try(
        self,
        candidate: Candidate,
        first: bool,
        engine: Engine,
        keeper: CandidateKeeper,
        listener: Callback | None,
        limit: TimeLimit,
    ) -> None:
        """Fit a candidate, and take note of its time, its warnings, and why it failed."""
        if candidate.why_not:
            return
        if not first and limit.is_over:
            candidate.why_not = LATE
            return

        def tell(event: dict[str, Any]) -> None:
            if listener is not None:
                listener({**event, "candidate": candidate.name})

        began = time.perf_counter()
        with collect_warnings() as told:
            try:
                candidate.model.fit_on(engine, listener=tell, keeper=keeper, limit=limit)
            except (NotFeasible, OutOfTime) as error:
                if first:
                    raise
                candidate.why_not = LATE if isinstance(error, OutOfTime) else str(error)
        candidate.told, candidate.seconds = told, time.perf_counter() - began

    def _conclude(
        self, candidates: Sequence[Candidate], sampled: Array, notes: dict[str, Any], fingerprint: str, wide: bool
    ) -> None:
        """Take over the winner, and say what was tried; of wide rows (images, features, words) `lsmmc` comes first.

        sampled : (m,) numbers of the rows on which candidates are compared
        """
        scored = [(c, c.verdict) for c in candidates if c.verdict is not None]
        preferred = "lsmmc" if wide else SMOOTH  # where nothing else speaks for one of two
        order = sorted(scored, key=lambda pair: pair[0].name != preferred)
        labels = {c.name: self.candidate_labels_[c.name][sampled] for c, _ in scored}
        first = order[choose([verdict.score for _, verdict in order], [labels[c.name] for c, _ in order], wide)][0]
        winner = next(c for c, _ in scored if rand_index(labels[c.name], labels[first.name]) == 1.0)  # the simplest
        assert winner.verdict is not None
        for candidate, verdict in scored:
            if candidate is not winner:
                candidate.why_not = _compare(verdict, winner.verdict)
        lowest = min(verdict.score for _, verdict in scored)
        why = {} if winner.verdict.score == lowest else {"why": NEAR_WIDE if wide and first is order[0][0] else NEAR}
        self._take_over(winner.model)
        self.choices_ = {
            **winner.model.choices_,
            "chosen": winner.name,
            **why,
            **notes,
            "fingerprint": fingerprint,
            "candidates": [candidate.describe(candidate is winner) for candidate in candidates],
        }
        for warned in winner.told:
            warn(warned.message, warned.category)
        late = [c.name for c in candidates if c.why_not == LATE]
        if late:
            warn(
                f"max_seconds={self.max_seconds:g} ended before {', '.join(late)} could be tried; the best so far, "
                f"{winner.name}, was kept. Allow more time.",
                ConvergenceWarning,
            )
        for candidate in candidates:
            if candidate.verdict is None and candidate.why_not != LATE:
                warn(f"{candidate.name} was not tried: {candidate.why_not.rstrip('.')}.", ClusteringWarning)


def _compare(verdict: Verdict, winner: Verdict) -> str:
    """Why a candidate was not chosen."""
    if winner.score / CLEARLY <= verdict.score <= CLEARLY * winner.score:
        return "about as good"
    if verdict.cut * CLEARLY < verdict.score and verdict.cut <= winner.cut:
        return "a cluster is suspiciously small"
    return f"cuts {verdict.cut / winner.cut:.1f} times as many near rows apart"
