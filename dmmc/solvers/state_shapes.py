"""What a value read from a file must look like, as a specification, and one function that compares the two.

Kernels do not look at shapes, so a state from a checkpoint is compared with its solver's specification before it is
used. A specification is one of

    {"W": Numbers(float, "K", "d"), ...}    members of a named tuple or a dict; members not named are not looked at
    Numbers(float, "K", "d")                an array: dtype, shape, least and largest value, whether all are finite
    Each({...})                             each item of a tuple, and how many there are
    Either(one, other)                      one of several specifications
    Kinds({ByScores: {...}})                by the type of the value; other types are not looked at
    Between(0, 5)                           a number, both ends included
    Equal(False)                            this very value

A side of a shape is a number, or a name: its size is given, or that of the first array in which the name occurs. Names
that first occur inside an item of `Each` hold for that item alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Spec = Any
"""One of the classes below, or a mapping from names to specifications."""
Side = int | str


class Numbers:
    """An array of exactly this dtype; low and high bound its values, both included."""

    def __init__(
        self, dtype: type, *shape: Side, low: float = -np.inf, high: float = np.inf, finite: bool = True
    ) -> None:
        self.dtype, self.shape, self.low, self.high, self.finite = np.dtype(dtype), shape, low, high, finite

    def _compare(self, value: Any, sizes: dict[str, int], path: str) -> str:
        if not isinstance(value, np.ndarray) or value.dtype != self.dtype or value.ndim != len(self.shape):
            return f"{path} is not an array of {self.dtype} with {len(self.shape)} axes"
        for side, size in zip(self.shape, value.shape, strict=True):
            if size != (sizes.setdefault(side, size) if isinstance(side, str) else side):
                return f"{path} has shape {value.shape}"
        if self.finite and not np.isfinite(value).all():
            return f"{path} holds NaN or infinity"
        if value.size and (value.min() < self.low or value.max() > self.high):
            return f"{path} holds a value out of range"
        return ""


@dataclass(frozen=True)
class Each:
    """The items of a tuple: at least so many, or `count` of them; `numbered` names a member that counts them from 0."""

    item: Spec
    count: Side = ""
    least: int = 1
    numbered: str = ""

    def _compare(self, value: Any, sizes: dict[str, int], path: str) -> str:
        if not isinstance(value, tuple):
            return f"{path} is not a tuple"
        wanted = sizes.get(self.count, len(value)) if isinstance(self.count, str) else self.count
        if len(value) != wanted or (self.count == "" and len(value) < self.least):
            return f"{path} has {len(value)} items"
        for number, item in enumerate(value):
            if self.numbered and getattr(item, self.numbered, None) != number:
                return f"{path} is not in order"
            misfit = find_misfit(item, self.item, dict(sizes), f"{path}[{number}]")
            if misfit:
                return misfit
        return ""


class Either:
    """One of several specifications."""

    def __init__(self, *choices: Spec) -> None:
        self.choices = choices

    def _compare(self, value: Any, sizes: dict[str, int], path: str) -> str:
        misfit = ""
        for choice in self.choices:
            known = dict(sizes)
            misfit = find_misfit(value, choice, known, path)
            if not misfit:
                sizes.update(known)
                break
        return misfit


@dataclass(frozen=True)
class Kinds:
    """A specification for each of some types."""

    by_type: Mapping[type, Spec]

    def _compare(self, value: Any, sizes: dict[str, int], path: str) -> str:
        spec = self.by_type.get(type(value))
        return "" if spec is None else find_misfit(value, spec, sizes, path)


@dataclass(frozen=True)
class Between:
    """A number from low to high."""

    low: float
    high: float = np.inf

    def _compare(self, value: Any, sizes: dict[str, int], path: str) -> str:
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        return "" if number and self.low <= value <= self.high else f"{path} is out of range"


@dataclass(frozen=True)
class Equal:
    """One number, text or truth value."""

    wanted: object

    def _compare(self, value: Any, sizes: dict[str, int], path: str) -> str:
        return "" if value == self.wanted else f"{path} is not {self.wanted}"


def find_misfit(value: Any, spec: Spec, sizes: dict[str, int], path: str = "it") -> str:
    """Say where a value differs from its specification; "" where it fits. Sizes that are found are added to `sizes`."""
    if not isinstance(spec, Mapping):
        return str(spec._compare(value, sizes, path))
    for name, inner in spec.items():
        known = name in value if isinstance(value, Mapping) else hasattr(value, name)
        if not known:
            return f"{path} has no {name}"
        member = value[name] if isinstance(value, Mapping) else getattr(value, name)
        misfit = find_misfit(member, inner, sizes, name if path == "it" else f"{path}.{name}")
        if misfit:
            return misfit
    return ""
