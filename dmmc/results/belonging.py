"""Whether what lies in a result folder is of one fit: `run.json` lists the seals of what was written beside it.

Results of older versions list none; of these, the fingerprint of the rows tells whether a model is of another fit.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dmmc.data.readers import store_checks
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.machine import MIB
from dmmc.results import array_folder

MARK = "UNFINISHED.txt"  # file in a folder that is not completely written
UNFINISHED = (
    "is unfinished: a run is still writing it, or was interrupted and can go on with dmmc fit --resume "
    "(dmmc.fit(..., resume=True))."
)
LARGEST_JSON = 1024 * MIB
"""Bytes of a `run.json` or `history.jsonl` that are read."""
SEALS = "seals"
"""Where they are listed in `run.json`."""
DESCRIBED = ("model", "summary", "centres")
"""Folders that `array_folder` wrote, each with a seal."""
LABELS = "labels.zarr"
UNSEALED = "0.1.0.dev0"
"""The one version of dmmc that has written models and checkpoints without a seal, too."""
LATER = frozenset({"transform", "graph", "n_anchors"})
"""Parameters that came after seals; every method has one of them."""


def is_unfinished(folder: Path) -> bool:
    """Whether a run has not finished this folder: it was interrupted, or still runs."""
    return (folder / MARK).is_file()


def read_run(folder: Path) -> dict[str, Any]:
    """`run.json` of a result folder."""
    try:
        run = json.loads(array_folder.read_file(folder / "run.json", LARGEST_JSON))
    except (ValueError, RecursionError) as error:
        if is_unfinished(folder):
            raise InputError(f"{folder} {UNFINISHED}") from error
        raise InputError(f"{folder} is not a dmmc result: its run.json is missing or damaged.") from error
    if not isinstance(run, dict) or not isinstance(run.get("data"), dict):
        raise InputError(f"{folder} is not a dmmc result: its run.json is something else.")
    return run


def list_seals(folder: Path) -> dict[str, str]:
    """The seals of what was written to a result folder, by name."""
    found = {part: _find_seal(description) for part, description in _read_descriptions(folder).items()}
    labels = _read_labels_seal(folder)
    return {part: seal for part, seal in {**found, LABELS: labels}.items() if seal is not None}


def check_result(folder: Path) -> dict[str, Any]:
    """Read `run.json` of a result folder, and refuse what lies beside it if it is of another fit, or lost its seal.

    What is missing or damaged is left to whoever reads it.
    """
    run, found, labels = read_run(folder), _read_descriptions(folder), _read_labels_seal(folder)
    listed = run.get(SEALS)
    listed = listed if isinstance(listed, dict) else {}
    sealing = bool(listed or labels) or is_later(run.get("parameters"), run.get("versions"))
    sealing = sealing or any(_is_sealed(description) for description in found.values())
    for part, description in found.items():
        if sealing and not _is_sealed(description):
            raise _lost_seal(folder / part)
        if listed.get(part, _find_seal(description)) != _find_seal(description):
            raise _of_another_fit(folder, part)
    if labels is not None and listed.get(LABELS, labels) != labels:
        raise _of_another_fit(folder, LABELS)
    here, there = run["data"].get("fingerprint"), _find_fingerprint(found.get("model"))
    if isinstance(here, str) and isinstance(there, str) and here != there:
        raise _of_another_fit(folder, "model")
    return run


def check_model(model: Path, content: Mapping[str, Any]) -> None:
    """Refuse a model that is not of the fit whose result folder it is in, or that lost its seal.

    content : what was read of it
    """
    place = model.resolve()
    if place.name == "model" and _is_result(place.parent):
        check_result(model.parent if model.name == "model" else place.parent)
    if array_folder.SEAL not in content:
        tell_unsealed(model / "model.json", "margin_scale" in content or is_later(content.get("params")))


def _is_result(folder: Path) -> bool:
    """Whether a folder with a model is a result: a `run.json` may be anyone's, beside a copy of the model."""
    others = ("history.jsonl", "summary", LABELS)
    return (folder / "run.json").is_file() and any((folder / other).exists() for other in others)


def is_later(params: Any, versions: Any = None) -> bool:
    """Whether parameters, or versions of libraries, were written down by a dmmc that seals."""
    named = isinstance(params, dict) and not LATER.isdisjoint(params)
    return named or (isinstance(versions, dict) and versions.get("dmmc", UNSEALED) != UNSEALED)


def tell_unsealed(path: Path, later: bool) -> None:
    """Warn of a description without a seal, or refuse it, if it was written `later` than the first seals."""
    if later:
        raise _lost_seal(path)
    warn(
        f"{path} was written by an earlier version and has no seal: sizes and ranges of what it holds are checked, but "
        "not whether all of it belongs together.",
        ClusteringWarning,
    )


def _lost_seal(path: Path) -> InputError:
    return InputError(
        f"{path} is damaged: it has no seal, but was written by a version of dmmc that seals what it writes, so "
        "something was changed."
    )


def _of_another_fit(folder: Path, part: str) -> InputError:
    return InputError(
        f"{folder / part} is not of the fit that {folder / 'run.json'} tells of: one of them was changed, or put there "
        "from another result. Restore it, or fit again."
    )


def _read_descriptions(folder: Path) -> dict[str, dict[str, Any]]:
    """The descriptions in a result folder that can be read."""
    found = {part: _try_to_read(folder / part / f"{part}.json") for part in DESCRIBED}
    return {part: told for part, told in found.items() if isinstance(told.get("content"), dict)}


def _read_labels_seal(folder: Path) -> str | None:
    attributes = _try_to_read(folder / LABELS / "zarr.json").get("attributes")
    told = attributes.get(store_checks.SEAL) if isinstance(attributes, dict) else None
    seal = told.get("sha256") if isinstance(told, dict) else None
    return seal if isinstance(seal, str) else None


def _try_to_read(path: Path) -> dict[str, Any]:
    """What a file of JSON holds; nothing where it is missing or damaged."""
    try:
        found = json.loads(array_folder.read_file(path, array_folder.LARGEST_DESCRIPTION))
    except (InputError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _find_seal(description: Mapping[str, Any]) -> str | None:
    seal = description["content"].get(array_folder.SEAL)
    return seal if isinstance(seal, str) else None


def _is_sealed(description: Mapping[str, Any]) -> bool:
    """Whether a description is of a format that has a seal; whether it has one is looked at where it is read."""
    version = description.get("version")
    return isinstance(version, int) and version >= array_folder.SEALED


def _find_fingerprint(model: Mapping[str, Any] | None) -> Any:
    choices = model["content"].get("choices") if model is not None else None
    return choices.get("fingerprint") if isinstance(choices, dict) else None
