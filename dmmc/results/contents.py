"""What a result folder holds, written and read back.

`run.json` is one object:

- ``method``, ``command``, ``parameters``, ``seed``: what was asked for; ``choices``: what was chosen for it, how the
  search ended, and whether prices of count bounds were folded into the biases
- ``data``: name, shape, dtype and fingerprint of the rows
- ``sizes``, ``names``, ``objective``, ``gap``, ``passes``, ``warnings``: what came out
- ``started``, ``timings`` (seconds of each phase up to the labels), ``peak_memory_mb``, ``versions``: how and where
- ``reading``: where rows were read block by block in this process, the bytes of all of them, of those that were kept
  between passes, and of those that were read in all passes; else null
- ``seals``: of what was written beside it, by name, so that nothing of another fit is taken for it

What JSON cannot say (infinity, not a number) is null.
"""

import csv
import json
import math
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dmmc import __version__, report
from dmmc.array_types import Array
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.plain_json import plain
from dmmc.profile.describe import PROFILE_COLUMNS, ClusterProfile, Feature, list_lines
from dmmc.profile.units import Units
from dmmc.report.summary import Summary
from dmmc.results import array_folder, atomic_files
from dmmc.results.belonging import LARGEST_JSON, SEALS, check_result, list_seals
from dmmc.results.label_arrays import create_arrays, open_to_write, write_arrays
from dmmc.results.label_table import choose_name, write_table
from dmmc.results.summary_folder import read_centres, read_summary, write_centres, write_summary

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "zarr", "dask", "sparse", "piqp", "plotly")


class Scores(NamedTuple):
    """Decision values of all rows, K of each, in arrays (m, K) of consecutive rows."""

    each: int
    parts: Iterable[Array]


@dataclass(frozen=True)
class Result:
    """All that a finished run leaves behind, but for its history, which was written as it happened."""

    labels: Array
    scores: Scores | None
    row_ids: Array | None
    confidence: Array
    runner_up: Array
    profiles: Sequence[ClusterProfile]
    centres: Array  # (k, d) means of the raw columns
    model: tuple[dict[str, Any], dict[str, Array]]  # content and arrays, as `array_folder.write` takes them
    run: dict[str, Any]
    summary: Summary
    feature_names: Sequence[str] | None
    image_shape: tuple[int, ...] | None
    units: Units | None = None  # of the table that the rows were made of
    truth: report.Comparison | None = None


def check_image_shape(shape: tuple[int, ...] | None, n_features: int) -> None:
    """Refuse a shape of images that rows do not have."""
    if shape is not None and math.prod(shape) != n_features:
        size = "x".join(map(str, shape))
        raise InputError(f"image shape {size} holds {math.prod(shape)} numbers, but a row has {n_features} features.")


def write_result(folder: Path, result: Result) -> None:
    """Write everything to a folder that has its `history.jsonl` already."""
    _write_labels(folder, result)
    _write_profile(folder / "profile.csv", result.profiles)
    write_centres(folder / "centres", result.centres)
    array_folder.write(folder / "model", "model", *result.model, sealed=True)
    n_features = result.run["data"]["n_features"]
    names, ids, kinds = result.feature_names, result.row_ids, None if result.units is None else result.units.kinds
    shape, profiles = result.image_shape, result.profiles
    write_summary(folder / "summary", result.summary, names, ids, n_features, shape, profiles, kinds)
    result.run[SEALS] = list_seals(folder)
    atomic_files.write_bytes(folder / "run.json", json.dumps(plain(result.run), indent=1).encode())
    if not report.available():
        return
    try:
        write_report(folder, truth=result.truth)
    except OSError:
        raise
    except Exception as error:  # a page that cannot be made must not cost the result
        text = f"the report could not be made ({type(error).__name__}: {error}); the rest of the result is whole."
        warn(text, ClusteringWarning)


def _write_labels(folder: Path, result: Result) -> None:
    """`labels.zarr`, `scores.zarr` if there are scores, and the table of labels."""
    write_arrays({folder / "labels.zarr": result.labels})
    if result.scores is not None:
        n_rows, K = len(result.labels), result.scores.each
        path, shape = folder / "scores.zarr", (n_rows,) if K == 1 else (n_rows, K)
        with create_arrays({path: (shape, np.float64)}) as asides:
            array, start = open_to_write(asides[path]), 0
            for f in result.scores.parts:
                array[start : start + len(f)] = f[:, 0] if K == 1 else f
                start += len(f)
    names = [profile.name for profile in result.profiles]
    more = {"confidence": result.confidence, "runner_up": result.runner_up}
    write_table(folder / choose_name(len(result.labels)), result.row_ids, result.labels, names, more)


def _write_profile(path: Path, profiles: Sequence[ClusterProfile]) -> None:
    """`profile.csv`: a line for each cluster and feature."""
    with open(path, "w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.DictWriter(file, PROFILE_COLUMNS, lineterminator="\n")
        writer.writeheader()
        for line in list_lines(profiles):
            writer.writerow({name: f"{cell:.6g}" if isinstance(cell, float) else cell for name, cell in line.items()})


def write_report(
    folder: Path, image_shape: tuple[int, ...] | None = None, truth: report.Comparison | None = None
) -> Path:
    """Write `report.html` from what a result folder holds; `truth` is what its clusters are compared with."""
    run, history = check_result(folder), _read_history(folder)
    content, summary = read_summary(folder / "summary")
    n_features, columns = content["n_features"], summary.columns
    shape = image_shape or (tuple(content["image_shape"]) if content["image_shape"] else None)
    check_image_shape(shape, n_features)
    if image_shape is not None and len(columns) < n_features:
        raise InputError(f"{folder} did not keep whole rows, as they are long; fit again with the image shape.")
    names, ids = content["names"], content["ids"]
    if names is None and len(columns) < n_features:
        names = [f"feature {column}" for column in columns]
    examples = []
    for i, (cluster, border, row, margin) in enumerate(summary.examples):
        kind, name = "borderline" if border else "typical", None if ids is None else ids[i]
        examples.append(report.Example(int(cluster), kind, int(row), name, float(margin), summary.values[i]))
    k = len(summary.sizes)
    axes, along = _name_axes(run, k)
    profiles = [
        ClusterProfile(
            cluster, told["name"], int(summary.sizes[cluster]), tuple(Feature(**f) for f in told["features"])
        )
        for cluster, told in enumerate(content.get("profiles", []))
    ]
    page = report.Page(
        title=str(run["data"].get("name")),
        command=str(run.get("command")),
        run=run,
        history=history,
        sizes=[int(size) for size in summary.sizes],
        margin_edges=summary.edges,
        margin_counts=summary.counts,
        map_xy=summary.map_xy,
        map_labels=summary.map_labels,
        map_rows=summary.map_rows,
        map_axes=axes,
        examples=examples,
        feature_names=names,
        kinds=content.get("kinds"),
        image_shape=shape,
        map_along=along,
        profiles=profiles,
        centres=None if shape is None else read_centres(folder / "centres", k),
        map_ids=content.get("map_ids"),
        map_told=content.get("map_words"),
        truth=truth,
    )
    atomic_files.write_bytes(folder / "report.html", report.render(page).encode())
    return folder / "report.html"


def _name_axes(run: dict[str, Any], n_clusters: int) -> tuple[tuple[str, str], str]:
    """What the map's axes are, and all of them together."""
    if run.get("map") == "circle":
        along = "a circle on which each cluster has its place: a row lies between the places of those that it is near"
        return ("across", "up"), along
    choices = run.get("choices")
    rank = choices.get("rank") if isinstance(choices, dict) else None
    if isinstance(rank, int) and rank >= 2:
        axes = ("first component of the subspace", "second component of the subspace")
        return axes, f"the first two of the {rank} dimensions that the model has learned"
    axes = ("first direction", "second direction")
    if n_clusters == 2:
        axes = ("decision value f", "leading direction across it")
    return axes, report.Page.map_along


def _read_history(folder: Path) -> list[dict[str, Any]]:
    path = folder / "history.jsonl"
    try:
        lines = [json.loads(line) for line in array_folder.read_file(path, LARGEST_JSON).splitlines()]
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: each line should be JSON.") from error
    if not all(isinstance(line, dict) for line in lines):
        raise InputError(f"{path} is damaged: each line should be an object.")
    return lines


def describe_environment() -> dict[str, Any]:
    """Versions and machine: what the bits of a result depend on."""
    found = {"dmmc": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    cpu = import_module("llvmlite.binding").get_host_cpu_name()
    return {**found, "cpu": cpu, "machine": platform.machine(), "system": platform.platform()}
