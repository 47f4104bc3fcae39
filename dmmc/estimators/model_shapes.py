"""What a model's files must hold: its description, and each of its arrays.

k is the number of clusters, K that of the hyperplanes, d that of the features of a row, and m that of the features in
which the hyperplanes are (d where these are the rows as they are).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.errors import InputError
from dmmc.estimators.parameters import ABOVE_0
from dmmc.features.nystroem import KERNELS, MOST
from dmmc.features.transforms import TRANSFORMS
from dmmc.features.view_map import name_array
from dmmc.model.passes import Tree
from dmmc.solvers.state_shapes import (
    LARGEST,
    Between,
    Each,
    Either,
    Every,
    Flag,
    Numbers,
    OneOf,
    Only,
    Sizes,
    Spec,
    Text,
    Whole,
    find_misfit,
)
from dmmc.tables.preparation import RECIPE, TablePreparation

_FLOAT = Between(-LARGEST, LARGEST)
_NUMBER = Either(OneOf(None), _FLOAT)

PARAMS = Every(Either(Text(), Flag(), _NUMBER))
DESCRIPTION = {
    "estimator": Text(),
    "choices": {"random_state": Whole(high=LARGEST)},
    "objective": _NUMBER,
    "gap": _NUMBER,
    "n_iter": Whole(),
}


class MapShapes(NamedTuple):
    """What files hold of a map of rows to features."""

    description: Mapping[str, Spec]
    arrays: Mapping[str, Spec]


MAPS = {
    "projection": MapShapes(
        {"unit": Flag()},
        {"map_w": Numbers(np.float64, "m", "d"), "map_b": Numbers(np.float64, "m")},
    ),
    "manifold": MapShapes(
        {"unit": Flag(), "unit_rows": Flag(), "n_neighbors": Whole(1)},
        {
            "map_w": Numbers(np.float64, "p", "d", least=1),
            "map_b": Numbers(np.float64, "p"),
            "map_points": Numbers(np.float32, "n", "p", least=1),
            "map_scale": Numbers(np.float64, "n", low=ABOVE_0),
            "map_values": Numbers(np.float32, "n", "m"),
        },
    ),
    "averaged places": MapShapes(
        {"unit": Flag(), "unit_rows": Flag(), "n_neighbors": Whole(1), "own": Between(ABOVE_0, 1.0)},
        {
            "map_w": Numbers(np.float64, "m", "d", least=1),
            "map_b": Numbers(np.float64, "m"),
            "map_points": Numbers(np.float32, "n", "m", least=1),
            "map_scale": Numbers(np.float64, "n", low=ABOVE_0),
        },
    ),
    "anchors": MapShapes(
        {"unit": Flag(), "unit_rows": Flag()},
        {
            "map_w": Numbers(np.float64, "p", "d", least=1),
            "map_b": Numbers(np.float64, "p"),
            "map_points": Numbers(np.float32, "G", "p", least=2),
            "map_lists": Numbers(np.float32, "lists", "p"),
            "map_values": Numbers(np.float32, "G", "m"),
        },
    ),
    "anchored places": MapShapes(
        {"unit": Flag(), "unit_rows": Flag(), "own": Between(ABOVE_0, 1.0)},
        {
            "map_w": Numbers(np.float64, "m", "d", least=1),
            "map_b": Numbers(np.float64, "m"),
            "map_points": Numbers(np.float32, "G", "m", least=2),
            "map_lists": Numbers(np.float32, "lists", "m"),
            "map_values": Numbers(np.float32, "G", "m"),
        },
    ),
    "nystroem": MapShapes(
        {"kernel": OneOf(*KERNELS), "gamma": _FLOAT, "degree": Whole(1, MOST), "coef0": _FLOAT},
        {
            "map_points": Numbers(np.float64, "r", "d", least=1),
            "map_mean": Numbers(np.float64, "d"),
            "map_inverse": Numbers(np.float64, "d"),
            "map_root": Numbers(np.float64, "m", "r"),
        },
    ),
}
"""By the kind that their description names."""


def _list_transform(kind: Any) -> MapShapes:
    """What files hold of a transform of rows."""
    length: Any = "d" if kind == "bm25" else 0
    description = {"kind": OneOf(*TRANSFORMS[1:]), "scale": Between(ABOVE_0, LARGEST)}
    return MapShapes(description, {"transform_weight": Numbers(np.float64, length)})


def read_params(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The parameters of a model, but for those that are in no file."""
    _refuse(find_misfit(content.get("params"), PARAMS, {}, "params"), name)
    own = {"init": "labels", "loss": "own"}
    return {key: value for key, value in content["params"].items() if key not in own or own[key] != value}


def check(
    content: Mapping[str, Any], arrays: Mapping[str, Array], n_clusters: Any, more: Mapping[str, Spec], name: str
) -> None:
    """Refuse a model that is not one that is written; `more` are arrays of its method alone."""
    _refuse(find_misfit(n_clusters, Whole(1), {}, "n_clusters"), name)  # that of `auto` is the one that was found
    _refuse(_find_misfit(content, arrays, n_clusters, more), name)
    scale = Either(OneOf(None), Between(ABOVE_0, LARGEST))  # models of older versions have none
    _refuse(find_misfit(content.get("margin_scale"), scale, {}, "margin_scale"), name)


def read_table(content: Mapping[str, Any], n_features: int, name: str) -> TablePreparation:
    """The preparation of tables that a model was fitted with."""
    misfit = find_misfit(content["table"], RECIPE, {}, "table")
    _refuse(misfit, name)
    preparation = TablePreparation.from_recipe(content["table"])
    count = len(preparation.get_feature_names_out())
    _refuse(f"its table gives {count} columns, where {n_features} are wanted" * (count != n_features), name)
    return preparation


def _refuse(misfit: str, name: str) -> None:
    if misfit:
        raise InputError(f"{name} holds a model that is not whole, or whose parts do not fit together: {misfit}.")


def _find_misfit(
    content: Mapping[str, Any], arrays: Mapping[str, Array], n_clusters: int, more: Mapping[str, Spec]
) -> str:
    features: Any = content.get("features")
    split, plain = "tree" in arrays, False
    sizes: Sizes = {"K": 1 if n_clusters <= 2 else n_clusters - split}
    columns: Any = "d"
    inner = MapShapes({}, {})
    views = _find_views(features)
    if views is not None:
        misfit = _find_misfit_of_views(views, arrays)
        if misfit:
            return misfit
        columns = sum(view["columns"] for view in views)
        sizes["d"] = sum(len(arrays[name_array(number, "weight")]) for number in range(len(views)))
        own = tuple(name_array(number, "") for number in range(len(views)))
        arrays = {name: values for name, values in arrays.items() if not name.startswith(own)}
        features = (
            None if features["kind"] == "views" else {key: features[key] for key in features.keys() - {"transform"}}
        )
    if features is not None:
        kind = features.get("kind") if isinstance(features, dict) else None
        if not isinstance(kind, str) or kind not in (*MAPS, *TRANSFORMS[1:]):
            return "its features are of no known kind"
        inner = MAPS[kind] if kind in MAPS else _list_transform(kind)
        plain = kind not in MAPS
        if not plain and "transform" in features:
            before = features["transform"]
            first = _list_transform(before.get("kind") if isinstance(before, dict) else None)
            inner = MapShapes(
                {**inner.description, "transform": Only(first.description)}, {**inner.arrays, **first.arrays}
            )
    m = "d" if features is None or plain else "m"
    needed = {
        "coef": Numbers(np.float64, "K", m, least=1),
        "intercept": Numbers(np.float64, "K"),
        **({"tree": Numbers(np.int64, "K", 2)} if split else {}),
        **inner.arrays,
        **more,
    }
    merged = {"merge_tree": Numbers(np.float64, "joins", 3, finite=False)}
    misfit = find_misfit(arrays, Only(needed, merged), sizes)
    if misfit:
        return misfit
    if split and not Tree(arrays["coef"], arrays["intercept"], arrays["tree"]).is_valid():
        return "its splits do not make a tree"
    names = {"feature_names": Either(OneOf(None), Each(Text(), count=columns))}
    spec = {**DESCRIPTION, **names, **({} if features is None else {"features": inner.description})}
    return find_misfit(content, spec, sizes)


def _find_views(features: Any) -> list[Any] | None:
    """What is said of the views of a model, if it has any."""
    for place in (features, features.get("transform") if isinstance(features, dict) else None):
        if isinstance(place, dict) and place.get("kind") == "views":
            views = place.get("views")
            return views if isinstance(views, list) else []
    return None


def _find_misfit_of_views(views: list[Any], arrays: Mapping[str, Array]) -> str:
    """Say what is wrong with the features of views; they have arrays of their own."""
    misfit = find_misfit(views, Each({"columns": Whole(1), "sparse": Flag()}), {}, "views")
    for number, view in enumerate([] if misfit else views):
        transform, axes = (view.get(name) for name in ("transform", "axes"))
        spec: dict[str, Spec] = {"weight": Numbers(np.float64, "m" if axes else "d", least=1)}
        about: dict[str, Spec] = {"transform": OneOf(None), "axes": OneOf(None)}
        if transform is not None:
            first = _list_transform(transform.get("kind") if isinstance(transform, dict) else None)
            about["transform"], spec = Only(first.description), {**spec, **first.arrays}
        if axes is not None:
            then = MAPS["projection"]
            about["axes"] = Only({"kind": OneOf("projection"), **then.description})
            spec = {**spec, **then.arrays}
        prefix = name_array(number, "")
        own = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
        sizes: Sizes = {"d": view["columns"]}
        misfit = (
            misfit
            or find_misfit(view, about, {}, f"views[{number}]")
            or find_misfit(own, Only(spec), sizes, f"view {number}")
        )
    return misfit
