"""What a value read from a file must look like, as a specification, and one function that compares the two.

Kernels do not look at shapes, so whatever is read from a checkpoint, a model or a result is compared with its
specification before it is used. A specification is one of

    {"W": Numbers(float, "K", "d"), ...}    members of a named tuple or a dict; others may be anything but arrays
    Only({...}, {...})                      a dict with these members, perhaps with those, and with no others
    Every(Text())                           a dict of any names, and what is in it
    Numbers(float, "K", "d")                an array: dtype, shape, least and largest value, whether all are finite
    Each({...})                             each item of a tuple or list, and how many there are
    Either(one, other)                      one of several specifications
    Kinds({ByScores: {...}})                by the type of the value, which is one of these
    Between(0, 5), Whole(0, 5)              a number, a whole number; both ends included
    OneOf("", "converged")                  one of these very values
    Text(), Flag(), Anything()              a text; true or false; what is looked at elsewhere

A side of a shape is a number, or a name: its size is given, or that of the first array in which the name occurs. Names
that first occur inside an item of `Each` hold for that item alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from dmmc.model.passes import ByScores, Drawn, Given

Spec = Any
"""One of the classes below, or a mapping from names to specifications."""
Side = int | str
Sizes = dict[str, Any]
"""Of the sides that have names, and bounds that have one."""

COUNTED = 2**53
"""No counter reaches this number."""
REACH = 1e9
"""No hyperplane on centred and scaled rows has a larger number, nor a price, in units of 1 + C."""
LARGEST = float(np.finfo(np.float64).max)
"""Of finite numbers."""
REAL = int | float | np.integer | np.floating
_NUMBERS: dict[Any, Any] = {float: REAL, int: int | np.integer, bool: bool | np.bool_}
"""What a number of each type may be."""


class Numbers:
    """An array of exactly this dtype, or of one of these kinds of numpy's ("iu"); its values are in bounds.

    low, high : least and largest value, both included
    below : a size that all are below, as a side of a shape
    within : name of a number, given with the sizes, that none is farther from 0 than
    values : the only ones that there are
    finite : whether all are; else all but NaN
    rising : whether each is larger than the one before it
    least : how many there are at least
    """

    def __init__(
        self,
        dtype: type | str,
        *shape: Side,
        low: float = -np.inf,
        high: float = np.inf,
        below: Side = "",
        within: str = "",
        values: tuple[int, ...] = (),
        finite: bool = True,
        rising: bool = False,
        least: int = 0,
    ) -> None:
        self.dtype = dtype if isinstance(dtype, str) else np.dtype(dtype)
        self.shape, self.low, self.high, self.below, self.within = shape, low, high, below, within
        self.values, self.finite, self.rising, self.least = values, finite, rising, least

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        fits = isinstance(value, np.ndarray) and value.ndim == len(self.shape)
        if fits and isinstance(self.dtype, str):
            fits = value.dtype.kind in self.dtype
        elif fits:
            fits = value.dtype == self.dtype
        if not fits:
            kind = {"iu": "whole numbers", "biuf": "numbers"}.get(str(self.dtype), self.dtype)
            return f"{path} is not an array of {kind} with {len(self.shape)} axes"
        for side, size in zip(self.shape, value.shape, strict=True):
            if isinstance(side, str):
                sizes.setdefault(side, size)
            if size != _find_size(side, sizes, size):
                return f"{path} has shape {value.shape}"
        if value.size < self.least:
            return f"{path} is empty"
        if np.isnan(value).any() or (self.finite and not np.isfinite(value).all()):
            return f"{path} holds NaN or infinity"
        reach = sizes[self.within] if self.within else np.inf
        low, high = max(self.low, -reach), min(self.high, reach)
        if self.below != "":
            high = min(high, _find_size(self.below, sizes, np.inf) - 1)
        if value.size and (value.min() < low or value.max() > high):
            return f"{path} holds a value out of range"
        if self.values and not np.isin(value, self.values).all():
            return f"{path} holds a value that is none of {', '.join(map(str, self.values))}"
        return f"{path} does not rise" if self.rising and (value[1:] <= value[:-1]).any() else ""


@dataclass(frozen=True)
class Each:
    """The items of a tuple or list: at least so many, or `count`; `numbered` names a member that counts them from 0."""

    item: Spec
    count: Side = ""
    least: int = 1
    numbered: str = ""

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        if not isinstance(value, tuple | list):
            return f"{path} is not a tuple"
        if len(value) != _find_size(self.count, sizes, len(value)) or (self.count == "" and len(value) < self.least):
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

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
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
    """A specification for each of some types; a value of another one does not fit."""

    by_type: Mapping[type, Spec]

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        spec = self.by_type.get(type(value))
        return f"{path} is of another kind" if spec is None else find_misfit(value, spec, sizes, path)


@dataclass(frozen=True)
class Only:
    """A dict that has all of one mapping's members, perhaps some of the other's, and no others."""

    needed: Mapping[str, Spec]
    optional: Mapping[str, Spec] = field(default_factory=dict)

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        if not isinstance(value, Mapping):
            return f"{path} has no members"
        for name in value:
            if name not in self.needed and name not in self.optional:
                return f"{path} has {name!r}, which it should not"
        return find_misfit(
            value, {**self.needed, **{name: spec for name, spec in self.optional.items() if name in value}}, sizes, path
        )


@dataclass(frozen=True)
class Every:
    """A dict whose members all fit one specification."""

    member: Spec

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        if not isinstance(value, Mapping):
            return f"{path} has no members"
        found = (find_misfit(member, self.member, dict(sizes), f"{path}.{name}") for name, member in value.items())
        return next(filter(None, found), "")


@dataclass(frozen=True)
class Between:
    """A number from low to high, infinity included where that is one of them."""

    low: float = -np.inf
    high: float = np.inf

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        number = isinstance(value, REAL) and not isinstance(value, bool)
        return "" if number and self.low <= value <= self.high else f"{path} is out of range"


@dataclass(frozen=True)
class Whole:
    """A whole number from low to high."""

    low: int = 0
    high: float = COUNTED

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        number = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return "" if number and self.low <= value <= self.high else f"{path} is no whole number, or out of range"


class OneOf:
    """One of some numbers, texts and truth values, or None."""

    def __init__(self, *wanted: object) -> None:
        self.wanted = wanted

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        value = value.item() if isinstance(value, np.generic) else value
        known = any(type(value) is type(one) and value == one for one in self.wanted)
        return "" if known else f"{path} is not {' or '.join(map(repr, self.wanted))}"


class Text:
    """Any text."""

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        return "" if isinstance(value, str) else f"{path} is no text"


class Flag:
    """True or false."""

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        return "" if isinstance(value, bool | np.bool_) else f"{path} is neither true nor false"


class Anything:
    """What is looked at elsewhere, or never used."""

    def _compare(self, value: Any, sizes: Sizes, path: str) -> str:
        return ""


def find_misfit(value: Any, spec: Spec, sizes: Sizes, path: str = "it") -> str:
    """Say where a value differs from its specification; "" where it fits. Sizes that are found are added to `sizes`."""
    if not isinstance(spec, Mapping):
        return str(spec._compare(value, sizes, path))
    members = value if isinstance(value, Mapping) else value._asdict() if hasattr(value, "_asdict") else {}
    for name, inner in spec.items():
        if name not in members:
            return f"{path} has no {name}"
        misfit = find_misfit(members[name], inner, sizes, name if path == "it" else f"{path}.{name}")
        if misfit:
            return misfit
    for name, member in members.items():
        if name not in spec and _holds_array(member):
            return f"{path} has arrays in {name}, which no specification describes"
    return ""


def _find_size(side: Side, sizes: Sizes, unknown: float) -> float:
    return sizes.get(side, unknown) if isinstance(side, str) else side


def _holds_array(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_array, value.values()))
    return isinstance(value, np.ndarray) or (isinstance(value, tuple | list) and any(map(_holds_array, value)))


def describe_labelling(n_labels: int, *heights: Side) -> Spec:
    """The specification of a labelling with so many labels of rows with d features.

    heights : how many hyperplanes there may be
    """
    planes = Either(*(describe_planes(height) for height in heights))
    drawn = {"seed": Whole(high=np.inf), "run": Whole(), "n_clusters": OneOf(n_labels)}
    packed = {"key": Text(), "base": OneOf(n_labels), "place": Whole(high=62 // (n_labels - 1).bit_length())}
    given = Either({"key": OneOf("given"), "base": OneOf(0)}, packed)
    return Kinds({ByScores: {"planes": planes, "wide": Flag()}, Given: given, Drawn: drawn})


def describe_planes(height: Side, **bounds: Any) -> Spec:
    """The specification of so many hyperplanes between rows with d features, and of what they are bounded by."""
    b = Numbers(np.float64, height, **bounds)
    return {"W": Numbers(np.float64, height, "d", **bounds), "b": b, "price": b}


def is_line(value: Any, *, numbered: bool) -> bool:
    """Whether a value is a line of a history: names with numbers, words, flags or None.

    numbered : whether it says which iteration it is of, and after how many seconds; else it says neither
    """
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        return False
    if any(isinstance(one, tuple | dict | np.ndarray) for one in value.values()):
        return False
    if not numbered:
        return value.keys().isdisjoint(("iteration", "seconds", "phase"))
    return not find_misfit(value, {"iteration": Whole(1), "seconds": Between(0, COUNTED)}, {})


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what a type hint promises, down to the members of tuples.

    A number may be numpy's, but not NaN; a whole number that stands for another is no larger than those can be told
    apart.
    """
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return any(fits(value, choice) for choice in get_args(hint))
    if kind is Any:
        return True
    if kind in (None, NoneType):
        return value is None
    if kind in _NUMBERS:
        if not isinstance(value, _NUMBERS[kind]) or (kind is not bool and isinstance(value, bool)):
            return False
        return kind is not float or (abs(value) <= COUNTED if isinstance(value, int) else bool(value == value))
    if not isinstance(value, kind):
        return False
    if kind is tuple:
        hints = get_args(hint)
        if len(hints) == 2 and hints[1] is Ellipsis:
            hints = (hints[0],) * len(value)
    elif hasattr(kind, "_fields"):
        named = get_type_hints(kind)
        hints = tuple(named[name] for name in kind._fields)
    else:
        return True
    return len(value) == len(hints) and all(map(fits, value, hints))
