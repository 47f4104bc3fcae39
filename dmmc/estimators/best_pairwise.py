"""Linked pairs and nothing else chosen by the user: from what `auto` finds, or by the links alone."""

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from dmmc.choose.tell import LATE
from dmmc.engine import Engine
from dmmc.errors import NotFeasible, OutOfTime, Warned, collect_warnings, warn
from dmmc.estimators.auto import AutoMMC
from dmmc.estimators.candidate_keeper import CandidateKeeper, Phases
from dmmc.estimators.checks import attach_weights, draw_seed
from dmmc.pairs.io import Links
from dmmc.solvers.driver import Callback, Keeper
from dmmc.time_limit import TimeLimit

if TYPE_CHECKING:
    from dmmc.estimators.pairwise import PairwiseMMC

SHARED = ("min_size", "max_size", "scale", "n_jobs", "max_seconds", "callbacks")
"""Parameters that `auto` has too."""


def fit_best(
    model: "PairwiseMMC",
    engine: Engine,
    links: Links,
    sample_weight: ArrayLike | None,
    listener: Callback | None,
    keeper: Keeper | None,
    limit: TimeLimit | None,
) -> "PairwiseMMC":
    """Fit copies of a model (`init="auto"`) with two starts, and return the one that breaks fewer links.

    1. what `auto` finds without the links: its labels are a start, in the features that it found them in
    2. the usual start, on the columns as they are; links may shape it
    """
    limit = TimeLimit(model.max_seconds) if limit is None else limit
    seed, phases = draw_seed(model.random_state), Phases()
    rows = attach_weights(engine.dataset, sample_weight)
    engine.use(rows)
    auto = AutoMMC(model.n_clusters, random_state=seed, **{name: getattr(model, name) for name in SHARED})
    auto.preparation_ = model.preparation_
    auto.fit_on(engine, listener=listener, keeper=keeper, limit=limit, phases=phases)
    found, fingerprint = auto.choices_, auto.choices_["fingerprint"]
    scale = {"scale": found["scale"]} if "scale" in found else {}
    space: dict[str, Any] = {}
    if found["chosen"] not in ("k-means", "cpmmc"):
        space = {"features": "lsa" if found["features"] == "lsa" else "spectral"}
        space["transform"] = found.get("transform", "none")
    starts: dict[str, dict[str, Any]] = {f"from {found['chosen']}": {"init": auto.labels_, **space, **scale}}
    starts["from links"] = {"init": "k-means", **scale}
    fitted: dict[str, tuple[PairwiseMMC, int, list[Warned]]] = {}
    tried: list[dict[str, Any]] = []
    for name, params in starts.items():
        if fitted and limit.is_over:
            tried.append({"name": name, "why_not": LATE})
            continue

        def tell(event: dict[str, Any], name: str = name) -> None:
            if listener is not None:
                listener({**event, "candidate": name})

        engine.use(rows)
        copy = type(model)(**{**model.get_params(), **params, "random_state": seed})
        own = CandidateKeeper(keeper, name, fingerprint, phases)
        with collect_warnings() as told:
            try:
                copy.fit_on(engine, links=links, listener=tell, keeper=own, limit=limit)
            except (NotFeasible, OutOfTime) as error:
                if not fitted and name == "from links":
                    raise
                tried.append({"name": name, "why_not": str(error)})
                continue
        broken = copy.choices_["must_links_broken"] + copy.choices_["cannot_links_broken"]
        fitted[name] = copy, broken, told
        tried.append({"name": name, "links_broken": broken})
    engine.use(rows)
    winner = min(fitted, key=lambda name: fitted[name][1])  # of equals the first
    best, _, told = fitted[winner]
    for warned in told:
        warn(warned.message, warned.category)
    best.choices_ |= {"init": "auto", "started": winner, "starts": tried, "candidates": found["candidates"]}
    return best
