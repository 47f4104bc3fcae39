"""The folder a run writes: labels, model, history, run.json and report (INTERFACE.md, "What -o OUT holds")."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dmmc import checkpoint, report
from dmmc.errors import InputError
from dmmc.summary import Summary

Array = NDArray[Any]

LIBRARIES = ("dmmc", "numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "sparse", "piqp")
LABEL_CHUNK = 2**20


@dataclass
class Result:
    """All that a finished run leaves behind."""

    labels: Array
    scores: Array | None
    row_ids: Array | None
    model: tuple[dict[str, Any], dict[str, Array]]
    """Content and arrays of the model, as `checkpoint.write` takes them."""
    run: dict[str, Any]
    history: list[dict[str, Any]]
    summary: Summary
    feature_names: Sequence[str] | None
    image_shape: tuple[int, ...] | None


class Out:
    """A run's own folder while it runs: locked, and in place only when it is whole.

    A new folder is written where it will stand, so that `history.jsonl` can be followed; it goes away if the run fails.
    With `overwrite`, the new result is written beside the earlier one and takes its place at the end.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        if self.path.exists() and not overwrite:
            raise InputError(f"{self.path} exists; choose another folder, or say overwrite to replace it.")
        if overwrite and self.path.exists() and not (self.path / "run.json").is_file():
            raise InputError(f"{self.path} exists and is not a dmmc result; it is not overwritten.")
        replaces = self.path.exists()
        self._lock_path = self.path.with_name(f".{self.path.name}.lock")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = open(self._lock_path, "w")  # noqa: SIM115 (held until close)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise InputError(f"another run is writing {self.path}; wait for it, or choose another folder.") from error
        self._stage = self.path.with_name(f".{self.path.name}.partial") if replaces else self.path
        if replaces:
            shutil.rmtree(self._stage, ignore_errors=True)
        self._stage.mkdir()
        self._history = open(self._stage / "history.jsonl", "w")  # noqa: SIM115 (closed by close)
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._history.close()
        if not self._finished:
            shutil.rmtree(self._stage, ignore_errors=True)
        self._lock_path.unlink(missing_ok=True)
        self._lock.close()

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the history, now."""
        self._history.write(json.dumps(plain(line)) + "\n")
        self._history.flush()

    def finish(self, result: Result) -> None:
        """Write everything, then let it appear."""
        folder = self._stage
        write_labels(folder / "labels.zarr", result.labels)
        if result.scores is not None:
            write_labels(folder / "scores.zarr", result.scores)
        if result.row_ids is not None:
            _write_csv(folder / "labels.csv", result.row_ids, result.labels)
        checkpoint.write(folder / "model", "model", *result.model)
        fields = result.summary._asdict()
        checkpoint.write(
            folder / "summary",
            "summary",
            {"feature_names": _names(result.feature_names), "image_shape": result.image_shape},
            fields if result.row_ids is None else {**fields, "ids": _shown_ids(result.row_ids, result.summary)},
        )
        checkpoint.write_bytes(folder / "run.json", json.dumps(plain(result.run), indent=1).encode())
        self._history.close()
        if report.available():
            write_report(folder)
        if folder != self.path:
            checkpoint.swap(folder, self.path)
        self._finished = True


def write_report(folder: Path, image_shape: tuple[int, ...] | None = None) -> Path:
    """Write `report.html` from what a result folder holds."""
    content, arrays = checkpoint.read(folder / "summary", "summary")
    run = read_run(folder)
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    names = content["feature_names"]
    ids = arrays.pop("ids", None)
    summary = Summary(**arrays)
    shape = image_shape or (tuple(content["image_shape"]) if content["image_shape"] else None)
    if shape is not None and int(np.prod(shape)) != int(run["data"]["n_features"]):
        raise InputError(f"image shape {shape} does not hold the {run['data']['n_features']} features of a row.")
    examples = [
        report.Example(int(c), "borderline" if kind else "typical", int(row), ids[i] if ids is not None else None, lead, v)
        for i, ((c, kind, row, lead), v) in enumerate(zip(summary.examples, summary.values, strict=False))
    ]
    two = len(summary.sizes) == 2
    page = report.Page(
        title=str(run["data"]["name"]),
        command=str(run["command"]),
        run=run,
        history=history,
        sizes=[int(size) for size in summary.sizes],
        margin_edges=summary.edges,
        margin_counts=summary.counts,
        map_xy=summary.map_xy,
        map_labels=summary.map_labels,
        map_rows=summary.map_rows,
        map_axes=("decision value f", "leading direction across it") if two else ("first direction", "second direction"),
        examples=examples,
        feature_names=names,
        image_shape=shape,
    )
    report.write(page, folder / "report.html")
    return folder / "report.html"


def read_run(folder: Path) -> dict[str, Any]:
    """`run.json` of a result folder."""
    try:
        run = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not a dmmc result: its run.json cannot be read.") from error
    if not isinstance(run, dict) or not isinstance(run.get("data"), dict):
        raise InputError(f"{folder} is not a dmmc result: its run.json is something else.")
    return run


def write_labels(path: Path, values: Array) -> None:
    """A zarr array with checksums, no chunk left out."""
    import zarr

    shutil.rmtree(path, ignore_errors=True)
    width = values.shape[1:]
    array = zarr.create_array(
        str(path),
        shape=values.shape,
        chunks=(max(1, min(LABEL_CHUNK, len(values))), *width),
        dtype=values.dtype,
        serializer=zarr.codecs.BytesCodec(),
        compressors=[zarr.codecs.ZstdCodec(level=3), zarr.codecs.Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
    array[...] = values


def environment() -> dict[str, Any]:
    """Versions and machine, for run.json."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return {"python": platform.python_version(), **found, "machine": platform.machine(), "system": platform.platform()}


def peak_memory() -> float | None:
    """Largest resident size of this process so far, in MB."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def plain(value: Any) -> Any:
    """The same as JSON can say it: no numpy types, no infinities."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


def _names(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


def _shown_ids(row_ids: Array, summary: Summary) -> Array:
    return np.array([str(row_ids[int(row)]) for row in summary.examples[:, 2]], dtype=np.str_)


def _write_csv(path: Path, row_ids: Array, labels: Array) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "cluster"])
        writer.writerows(zip((str(name) for name in row_ids), labels.tolist(), strict=True))
        file.flush()
        os.fsync(file.fileno())
