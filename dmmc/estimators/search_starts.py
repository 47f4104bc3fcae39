"""Starts that take a search of their own: groups merged along the graph, and topics of few axes before many."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dmmc.array_types import Array
from dmmc.data.open import open_dataset
from dmmc.estimators.anchor_space import AnchorSpace
from dmmc.estimators.context import FitContext
from dmmc.estimators.feature_space import enter_rows
from dmmc.features.build import Built
from dmmc.features.projection import scale_rows
from dmmc.model.geometry import measure
from dmmc.model.packed_labels import count_packable, pack_labels
from dmmc.model.passes import Hyperplanes, Labelling, label_rows
from dmmc.solvers import starts
from dmmc.solvers.consensus import find_consensus
from dmmc.solvers.graph_starts import merge_starts, stack_starts
from dmmc.solvers.least_squares import LeastSquares, Problem, State
from dmmc.solvers.medoid import find_medoid

if TYPE_CHECKING:
    from dmmc.estimators.fitting import MarginClusterer

TRIES = 5
"""Starts along the graph of which the medoid is taken, where a search wants one start."""
TOPIC_TRIES = 16
"""Labellings by topics of which the consensus is taken, where a search wants one start."""
SETTLED = 1e-5
"""Topics overlap, and Lloyd passes that end early leave them between two places."""
FIRST_AXES = 50
AXES_A_CLUSTER = 5
"""Axes on which topics are first looked for: as many a cluster, but no more than 50."""
RIDGE = 1e-3
ROUNDS = 60


def add_starts(model: "MarginClusterer", context: FitContext, built: Built | AnchorSpace) -> FitContext:
    """The context with labels to start from, where they come from the graph or from the first axes of text."""
    k = int(model.n_clusters)
    wanted = min(model.choose_n_init(context.engine.dataset.n_rows), count_packable(k))
    if isinstance(built, AnchorSpace):
        return built.start(context, k, max(wanted, TRIES), wanted) if model.start_name == "graph" else context
    if model.start_name == "graph":
        tries = max(wanted, TRIES)
        made = context.remember("join", lambda: _start_along_graph(context, built, k, tries), k=k)
    elif model.start_name == "k-means" and model.features == "lsa" and context.links is None:  # links shape k-means
        tries = max(wanted, TOPIC_TRIES)
        made = context.remember("topics", lambda: _start_by_topics(model, context, built, tries), k=k)
    else:
        return context
    labellings = list(made["labels"].T)
    wanted, number = min(wanted, len(labellings)), 0  # there are fewer when the time is up
    if wanted == 1 and model.start_name == "graph":
        number = find_medoid(labellings)
        given = labellings[number].astype(np.int64)
    elif wanted == 1:
        given = find_consensus(labellings, k, context.engine.dataset.weight)
    else:
        given = pack_labels(labellings[:wanted], model.n_clusters)
    context.engine.use(context.engine.dataset.with_columns(given=given))
    tree = made["trees"][number] if "trees" in made else None
    return replace(context, merge_tree=tree, n_given=wanted)


def _start_along_graph(context: FitContext, built: Built, n_clusters: int, count: int) -> dict[str, Array]:
    """Labels (n, starts) and merge trees (starts, groups, 3; shorter ones end in zeros)."""
    assert built.vectors is not None
    found = merge_starts(
        lambda rows: context.engine.over(open_dataset(rows)),
        built.vectors,
        built.graph,
        n_clusters,
        count,
        context.seed,
        context.limit,
        lambda fraction: context.tell_part("join", fraction),
    )
    return stack_starts(found)


def _start_by_topics(model: "MarginClusterer", context: FitContext, built: Built, count: int) -> dict[str, Array]:
    """Labels (n, starts): k-means, then least squares, on the first latent semantic axes, rows of norm 1."""
    few = min(FIRST_AXES, AXES_A_CLUSTER * model.n_clusters, built.places.shape[1])
    rows = scale_rows(built.places[:, :few], unit=True)
    with enter_rows(context.engine, rows, f"first {few} axes of {context.engine.dataset.name}") as engine:
        geometry, _ = measure(engine.dataset, engine.rows, "none")
        geometry = replace(geometry, fingerprint=context.geometry.fingerprint)
        inner = replace(context, engine=engine, geometry=geometry)
        labellings, _ = starts.k_means(
            engine.dataset,
            engine.run,
            geometry,
            model.n_clusters,
            count,
            context.seed,
            context.limit,
            tries=1,  # starts that differ make a better consensus than those that are best by themselves
            settled=SETTLED,
        )
        lowest, highest = model.choose_bounds(engine.dataset.n_rows)
        sample = starts.sample_rows(engine.dataset, model.n_clusters, context.seed)
        problem = Problem(
            model.n_clusters,
            RIDGE,
            5e-4,
            lowest,
            highest,
            geometry,
            lambda: geometry.apply(engine.dataset.take(sample)),
        )
        state = drive_least_squares(inner, problem, labellings, ROUNDS, "topics")
        labels = label_by_runs(inner, problem, state)
    return {"labels": np.stack(labels, axis=1).astype(np.int16)}


def drive_least_squares(
    context: FitContext, problem: Problem, labellings: list[Labelling], max_iter: int, key: str
) -> State:
    """Least-squares MMC from these labels, whose result another search starts from; `key` tells it from others."""
    solver = LeastSquares(problem, context.engine.run)
    n_features = context.engine.dataset.n_features
    state: State = context.drive_start(solver, lambda: solver.init(labellings, n_features), max_iter, key)
    return state


def label_by_runs(context: FitContext, problem: Problem, state: State) -> list[Array]:
    """The labels (n,) of each run of least-squares MMC."""
    return [label_by_planes(context, problem.geometry.raw(r.at.W, r.at.b, r.at.price)) for r in state.runs]


def label_by_planes(context: FitContext, planes: Hyperplanes) -> Array:
    """Labels (n,) of the context's rows by one hyperplane a cluster."""
    return np.concatenate(list(context.engine.rows(label_rows, planes)))
