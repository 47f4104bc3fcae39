"""Checkpoints of a fit: written while it searches, compared with what is asked for before the search goes on."""

import hashlib
import reprlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.pairs.io import Links
from dmmc.plain_json import plain
from dmmc.results import array_folder, state_codec
from dmmc.results.belonging import is_later, tell_unsealed
from dmmc.results.contents import describe_environment
from dmmc.results.folder import Out
from dmmc.solvers.driver import Line, SearchKeeper
from dmmc.solvers.state_shapes import fits, is_line

EVERY = 2.0  # seconds from one checkpoint to the next, at least
SHARE = 0.02  # largest part of the time that writing them may take
KIND = "checkpoint"
FREE = ("n_jobs", "max_seconds", "callbacks")  # parameters that have no influence on where a search goes
BITS = ("dmmc", "python", "numpy", "scipy", "scikit-learn", "numba", "llvmlite", "piqp")
"""Libraries whose versions decide the last bits of a result."""


def describe_request(
    method: str, params: Mapping[str, Any], sample_weight: Any, constraints: Links | None = None
) -> dict[str, Any]:
    """Method, parameters and inputs that decide the result, by name; arrays by their digests."""
    named = {name: value for name, value in params.items() if name not in FREE}
    if not isinstance(named.get("init", ""), str):
        named["init"] = _digest(named["init"])
    weight = None if sample_weight is None else _digest(sample_weight)
    if constraints is not None:
        named["constraints"] = constraints.digest
    found: dict[str, Any] = plain({"method": method, **named, "sample_weight": weight})
    return found


def _digest(values: Any) -> str:
    """Shape and hash of an array; equal numbers of different types have the same."""
    try:
        array = np.asarray(values)
    except ValueError:  # the estimator says what is wrong with it
        return "no array"
    if array.dtype.kind in "biuf":
        array = np.ascontiguousarray(array, np.float64)
    return f"shape {array.shape}, sha256 {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


class Checkpoints:
    """The checkpoints of one fit, in its OUT, which is entered: what `drive` calls a keeper."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._name = str(out.checkpoint / f"{KIND}.json")
        self._facts: dict[str, Any] = {}
        self._last: tuple[Any, Sequence[Line], int] | None = None
        self._saved = -1
        # key, last state and history of a search that the next step of the fit's own starts from
        self._start: tuple[str, Any, list[Line]] | None = None
        self._start_found: tuple[Any, NDArray[Any]] | None = None
        self._next = 0.0
        self._found: dict[str, Any] = {}
        self._phases: dict[str, NDArray[Any]] = {}  # made before the search, by the name of the phase and of the array
        self._written: set[str] = set()
        if out.resumed:
            self._found, arrays = array_folder.read(out.checkpoint, KIND, sealed=True)
            has_state = "state" in arrays
            self._data: NDArray[Any] = arrays.pop("state", np.zeros(0))
            if "start_state" in arrays:
                self._start_found = self._found.get("start"), arrays.pop("start_state")
            self._phases = arrays
            self._written = set(arrays)
            searching = self._found.get("search") is not None
            if searching != has_state or not all(
                isinstance(self._found.get(part), dict) for part in ("asked", "data", "versions")
            ):
                raise InputError(f"{self._name} is damaged: it does not say what it is a checkpoint of.")
            if array_folder.SEAL not in self._found:
                tell_unsealed(Path(self._name), is_later(self._found["asked"], self._found["versions"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Save the last state if the fit fails after the search, too."""
        if error is not None:
            with suppress(OSError):
                self.save()

    @property
    def seed(self) -> int | None:
        """The seed of the search to go on with, if there is one."""
        seed = self._found["asked"].get("random_state") if self._found else None
        return seed if isinstance(seed, int) and seed >= 0 else None

    def compare(self, asked: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
        """Refuse to resume with other parameters or other versions of libraries; both are written to new checkpoints.

        A parameter that the checkpoint's version of dmmc did not have had its value in `defaults`.
        """
        here = describe_environment()
        self._facts.update(asked=dict(asked), versions={name: here[name] for name in (*BITS, "cpu") if name in here})
        if not self._found:
            return
        versions = {**self._found["versions"]}
        cpu = versions.pop("cpu", None)
        added = {name: value for name, value in (defaults or {}).items() if name in asked}
        self._refuse_differences(asked, {**plain(added), **self._found["asked"]})
        self._refuse_differences({name: here[name] for name in BITS if name in here}, versions)
        if cpu != here["cpu"]:
            warn(
                f"the checkpoint was written on a CPU of type {_REPR.repr(cpu)}, and this one is {here['cpu']!r}: "
                "the last bits of the result may be others.",
                ClusteringWarning,
            )

    def compare_data(self, **kind: Any) -> None:
        """Refuse to resume with data of another shape or type; both are written to new checkpoints."""
        self._facts.setdefault("data", {}).update(kind)
        if self._found:
            self._refuse_differences(kind, {name: self._found["data"].get(name) for name in kind}, "the data's ")

    def _refuse_differences(self, here: Mapping[str, Any], there: Mapping[str, Any], what: str = "") -> None:
        absent = object()
        differences = [
            f"{what}{name} is {_show(here, name)}, but {_show(there, name)} in the checkpoint"
            for name in dict.fromkeys((*here, *there))
            if here.get(name, absent) != there.get(name, absent)
        ]
        if differences:
            raise InputError(
                f"{self._out.given} cannot be resumed: {'; '.join(differences)}. Ask for the same as then, or begin "
                "anew with --overwrite (overwrite=True)."
            )

    def find_state(
        self, fingerprint: str, types: Sequence[type[Any]], find_misfit: Callable[[Any], str]
    ) -> tuple[Any, list[Line]] | None:
        """State and history of the search to go on with; None where it begins."""
        self._identify(fingerprint)
        if self._found.get("search") is None:
            return None
        state, lines = self._decode(self._found.get("search"), self._data, types, find_misfit)
        self._found.clear()
        self._saved = len(lines)
        self._out.rewrite_history(lines)
        return state, lines

    def _identify(self, fingerprint: str) -> None:
        """Refuse to resume with other data; the fingerprint is written to new checkpoints."""
        self.compare_data(fingerprint=fingerprint)
        if self._found and self._found.get("search") is None:
            self._found.clear()
            self._out.rewrite_history([])

    def remember(
        self,
        fingerprint: str,
        phase: str,
        make: Callable[[], dict[str, NDArray[Any]]],
        find_misfit: Callable[[Any], str],
    ) -> dict[str, NDArray[Any]]:
        """Arrays that a phase before the search makes: from the checkpoint if it has them, else made and saved."""
        self._identify(fingerprint)
        prefix = f"{phase}_"
        found = {name.removeprefix(prefix): array for name, array in self._phases.items() if name.startswith(prefix)}
        if found:
            self._refuse_misfit(find_misfit(found), f" of phase {phase}")
            return found
        found = make()
        self._phases.update({prefix + name: array for name, array in found.items()})
        self._write(None, {})
        return found

    def _refuse_misfit(self, misfit: str, of: str = "") -> None:
        if misfit:
            raise InputError(f"{self._name} is damaged: its arrays{of} do not fit together ({misfit}).")

    def _write(self, search: Any, state: Mapping[str, NDArray[Any]]) -> None:
        new = {name: array for name, array in self._phases.items() if name not in self._written}
        content = {**self._facts, "search": search}
        if self._start is not None:
            key, at, lines = self._start
            encoded, data = state_codec.encode((at, tuple(lines)))
            content["start"], state = {"key": key, "search": encoded}, {**state, "start_state": data}
        array_folder.write(self._out.checkpoint, KIND, content, {**new, **state}, same=self._written, sealed=True)
        self._written = set(self._phases)

    def _decode(
        self, search: Any, data: NDArray[Any], types: Sequence[type[Any]], find_misfit: Callable[[Any], str]
    ) -> tuple[Any, list[Line]]:
        both = state_codec.decode(search, data, types, self._name)
        if isinstance(both, tuple) and len(both) == 2 and fits(both[0], types[0]) and isinstance(both[1], tuple):
            state, lines = both
            numbered = (line["iteration"] == number for number, line in enumerate(lines, 1))
            if all(is_line(line, numbered=True) for line in lines) and all(numbered):
                self._refuse_misfit(find_misfit(state))
                return state, list(lines)
        raise InputError(f"{self._name} is damaged: what it holds is not a state of this method.")

    def keep_start(self, key: str) -> SearchKeeper:
        """Keeps a search that the fit's own, or its next step, starts from."""
        return _StartKeeper(self, key)

    def keep(self, state: Any, history: Sequence[Line]) -> None:
        """Remember a state; save it, unless one was saved less than `EVERY` seconds ago."""
        self._last, self._start = (state, history, len(history)), None
        if time.perf_counter() >= self._next:
            self.save()

    def save(self) -> None:
        """Save the last state, unless it is saved; the checkpoint before stays until the new one is complete."""
        if self._start is None and (self._last is None or self._last[2] == self._saved):
            return
        began = time.perf_counter()
        if self._last is None:
            self._write(None, {})
        else:
            state, history, count = self._last
            search, data = state_codec.encode((state, tuple(history[:count])))
            self._write(search, {"state": data})
            self._saved = count
        ended = time.perf_counter()
        self._next = ended + max(EVERY, (ended - began) / SHARE)


class _StartKeeper:
    """A keeper of a search that the fit's own starts from: in the same checkpoint, until the fit's own goes on."""

    def __init__(self, checkpoints: Checkpoints, key: str) -> None:
        self._checkpoints = checkpoints
        self._key = key

    def find_state(
        self, fingerprint: str, types: Sequence[type[Any]], find_misfit: Callable[[Any], str]
    ) -> tuple[Any, list[Line]] | None:
        owner = self._checkpoints
        owner._identify(fingerprint)
        found = owner._start_found
        if found is None or not isinstance(found[0], dict) or found[0].get("key") != self._key:
            return None
        owner._start_found = None
        return owner._decode(found[0].get("search"), found[1], types, find_misfit)

    def keep(self, state: Any, history: Sequence[Line]) -> None:
        self._checkpoints._start = self._key, state, list(history)
        if time.perf_counter() >= self._checkpoints._next:
            self.save()

    def save(self) -> None:
        self._checkpoints.save()


def _show(values: Mapping[str, Any], name: str) -> str:
    return _REPR.repr(values[name]) if name in values else "not given"


_REPR = reprlib.Repr()
_REPR.maxstring = 100
