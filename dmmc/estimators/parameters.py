"""Parameters of estimators: each is written once, with its default, its range and one line of meaning.

An estimator is a dataclass whose fields are made by `parameter`. The constructor, the checks of `fit`, the docstring,
`dmmc methods --parameters METHOD`, `dmmc fit --help` and docs/parameters.md come from these fields.
"""

import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dmmc.errors import InputError
from dmmc.estimators.checks import check_number
from dmmc.features.build import FEATURES, MOST_CLUSTERS
from dmmc.features.nystroem import KERNELS, LANDMARKS, MOST
from dmmc.machine import count_threads
from dmmc.model.losses import LOSSES, resolve_loss
from dmmc.solvers.driver import Callback

MAX_CLUSTERS = 10_000
"""Of the methods that take most; others say theirs (`most_clusters`)."""
FEW_CLUSTERS = MOST_CLUSTERS
"""Of methods that split again and again, and of graphs of eigenvectors, of which there are four a cluster."""
MOST_USED = ("C", "features", "init", "n_init", "scale")
"""Parameters that `dmmc fit --help` names."""


class Number(NamedTuple):
    """A finite number from `low` up to but not including `high`, or one of `words`."""

    wanted: str
    low: float = -np.inf
    high: float = np.inf
    whole: bool = False
    words: tuple[str | None, ...] = ()

    def check(self, name: str, value: object) -> None:
        """Refuse any other value."""
        if not any(value is word or (isinstance(value, str) and value == word) for word in self.words):
            check_number(name, value, self.wanted, self.low, self.high, whole=self.whole)

    def __str__(self) -> str:
        return self.wanted.rstrip(",")


class Words(NamedTuple):
    """One of a few words; `others` says what else may be given, which is checked where it is used."""

    words: tuple[str, ...]
    others: str = ""

    def check(self, name: str, value: object) -> None:
        """Refuse any other word."""
        if self.others and not isinstance(value, str):
            return
        if not (isinstance(value, str) and value in self.words):
            raise InputError(f"{name} is {value!r}; choose one of {', '.join(map(repr, self.words))}{self._or()}.")

    def _or(self) -> str:
        return f", or {self.others}" if self.others else ""

    def __str__(self) -> str:
        return ", ".join(f'"{word}"' for word in self.words) + self._or()


class Truth(NamedTuple):
    """True or False."""

    wanted: str = "True or False"

    def check(self, name: str, value: object) -> None:
        """Refuse anything else."""
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name} is {value!r}; {self.wanted} is wanted.")

    def __str__(self) -> str:
        return self.wanted


class Checked(NamedTuple):
    """Whatever `examine` does not refuse."""

    wanted: str
    examine: Callable[[Any], object]

    def check(self, name: str, value: object) -> None:
        """Refuse what is not wanted."""
        self.examine(value)

    def __str__(self) -> str:
        return self.wanted


class Clusters(NamedTuple):
    """A number of clusters, as many as an estimator says that it takes."""

    most: int = FEW_CLUSTERS

    def check(self, name: str, value: object) -> None:
        """Refuse any other value."""
        check_number(name, value, f"{self},", 1, self.most + 1, whole=True)

    def __str__(self) -> str:
        return f"a whole number of clusters, 2 to {self.most:,}"


Range = Number | Words | Truth | Checked | Clusters
ABOVE_0 = float(np.nextafter(0.0, 1.0))
POSITIVE = Number("a number above 0", ABOVE_0)
POSITIVE_OR_AUTO = Number('a number above 0, or "auto",', ABOVE_0, words=("auto",))
TRUTH = Truth()
AT_LEAST_1 = Number("a whole number of at least 1", 1, whole=True)


def at_least(least: int, *words: str | None) -> Number:
    """A whole number of at least `least`, or one of the words."""
    more = "".join(f", or {word if word is None else repr(word)}" for word in words).replace("'", '"')
    return Number(f"a whole number of at least {least}{more}" + "," * bool(words), least, whole=True, words=words)


def check_callbacks(callbacks: Any) -> None:
    """Refuse anything but None, a callable or a sequence of callables."""
    several = callbacks if isinstance(callbacks, Sequence) else (callbacks,)
    if callbacks is not None and not all(callable(callback) for callback in several):
        raise InputError(f"callbacks is {callbacks!r}; a callable or a sequence of callables is wanted.")


GRAPH_RANGE = Words(("auto", "rows", "anchors"))
GRAPH_MEANING = (
    'between what the graph is: "rows", each linked to its nearest; or "anchors", k-means centres to which all rows '
    'are linked block by block, for any number of rows. "auto" is "rows" up to 150,000 of them, else "anchors"'
)
ANCHORS_RANGE = at_least(10, "auto")
ANCHORS_MEANING = (
    'how many anchors, with a graph of anchors. "auto" is 5,000, or 50 a cluster where that is more, up to 20,000 and '
    "no more than one for four rows"
)
LOSS = Checked(", ".join(f'"{name}"' for name in LOSSES) + ", or a loss object", resolve_loss)


def parameter(default: Any, range_: Range, meaning: str) -> Any:
    """A field of an estimator: a parameter with its default, what it may be, and what it means."""
    return dataclasses.field(default=default, metadata={"range": range_, "meaning": meaning})


class Parameter(NamedTuple):
    """One line of the table of an estimator's parameters."""

    name: str
    default: Any
    range: Range
    meaning: str


def list_parameters(estimator: Any) -> list[Parameter]:
    """The parameters of an estimator or of its class, in the order of its constructor: keywords come last."""
    fields = [field for field in dataclasses.fields(estimator) if "meaning" in field.metadata]
    fields.sort(key=lambda field: bool(field.kw_only))
    return [Parameter(f.name, f.default, _find_range(estimator, f), f.metadata["meaning"]) for f in fields]


def _find_range(estimator: Any, field: Any) -> Range:
    """What a parameter may be; how many clusters there may be is a matter of the estimator."""
    found: Range = field.metadata["range"]
    return Clusters(estimator.most_clusters) if isinstance(found, Clusters) else found


def check_parameters(estimator: Any) -> None:
    """Refuse the first parameter that is out of its range, in one sentence."""
    values = estimator.get_params()
    for name, _, range_, _ in list_parameters(estimator):
        range_.check(name, values[name])


def show_default(value: Any) -> str:
    """A default as Python writes it, with double quotes."""
    return f'"{value}"' if isinstance(value, str) else f"{value!r}"


Class = TypeVar("Class", bound=type)


def document(cls: Class) -> Class:
    """Put the table of parameters into a class's docstring, in the place of "[parameters]" (numpydoc)."""
    lines = []
    for name, default, range_, meaning in list_parameters(cls):
        lines.append(f"{name} : {range_}; default {show_default(default)}")
        lines += textwrap.wrap(meaning, 112, initial_indent="    ", subsequent_indent="    ")
    text = textwrap.indent("\n".join(lines), "    ").lstrip()
    cls.__doc__ = (cls.__doc__ or "").replace("[parameters]", f"Parameters\n    ----------\n    {text}")
    return cls


class HiddenParameter:
    """A parameter with the name of a method: `get_params` and the constructor have the one, attributes the other."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        for cls in (type(instance) if owner is None else owner).__mro__:
            found = cls.__dict__.get(self._name)
            if callable(found):
                return found.__get__(instance, owner)
        raise AttributeError(f"{self._name} is a parameter; get_params() has it.")

    def __set__(self, instance: object, value: Any) -> None:
        instance.__dict__[self._name] = value


def hide_transform(cls: Class) -> Class:
    """Let the parameter `transform` of a dataclass be in its constructor and in `get_params`, and the method stay."""
    hidden = HiddenParameter()
    hidden.__set_name__(cls, "transform")
    cls.transform = hidden  # type: ignore[attr-defined]
    return cls


@dataclass(eq=False, repr=False, kw_only=True)
class RunParameters:
    """Parameters of every estimator, `auto` included."""

    most_clusters: ClassVar[int] = FEW_CLUSTERS
    """How many clusters it takes."""

    min_size: float = parameter(
        0.1,
        Number("a fraction of n / n_clusters from 0 to 1", 0.0, np.nextafter(1.0, 2.0)),
        "least weight of a cluster, as a fraction of n / n_clusters: a guard against collapse, not a prior. 0 is none. "
        "A bound that is active at the end is a warning",
    )
    max_size: float | None = parameter(
        None,
        Number("None, or a multiple of n / n_clusters of at least 1,", 1.0, words=(None,)),
        "largest weight of a cluster, as a multiple of n / n_clusters; None is no bound",
    )
    scale: str = parameter(
        "auto",
        Words(("auto", "standard", "none")),
        'whether to put all columns on one scale; "auto" does where the largest spread is more than 10 times that of '
        "the lowest tenth of the columns, unless all columns lie on both sides of 0 without correlation, as principal "
        "components do",
    )
    random_state: Any = parameter(
        None,
        Checked("a whole number of at least 0, None, or a generator of numpy's", lambda value: None),
        "the seed: one seed gives one answer. None draws one and notes it; `dmmc.fit` and the command line take 0",
    )
    n_jobs: int | None = parameter(
        None,
        Checked("a positive number of threads, or None for all cores", count_threads),
        "threads; the result does not depend on them",
    )
    max_seconds: float | None = parameter(
        None,
        Number("None, or a number of seconds above 0,", ABOVE_0, words=(None,)),
        "end then, reading and starts included, with the best so far; OutOfTime where there is nothing yet",
    )
    callbacks: Callback | Sequence[Callback] | None = parameter(
        None,
        Checked("None, a callable or a sequence of callables", check_callbacks),
        "called with each line of the history as it is made",
    )


@dataclass(eq=False, repr=False)
class SearchParameters(RunParameters):
    """Parameters of every estimator that searches once."""

    n_clusters: int = parameter(
        2,
        Clusters(),
        "how many clusters",
    )
    _: KW_ONLY
    epsilon: float = parameter(0.01, POSITIVE, "gap at which a convex problem counts as solved, in units of C")
    max_iter: int = parameter(1000, AT_LEAST_1, "most passes over the data")
    init: str | ArrayLike = parameter(
        "k-means",
        Words(("k-means", "graph", "pca", "random"), "labels"),
        'where the search starts; "graph" merges many small groups along the graph of nearest neighbours',
    )
    n_init: int | str = parameter(
        "auto",
        at_least(1, "auto"),
        "number of starts; they share each read of the data, and `select` says which wins. "
        '"auto" is 1, and 10 for random starts',
    )
    outliers: str = parameter(
        "lower",
        Words(("lower", "keep")),
        "rows more than 10 times as far out as the median row, where they are at most 5 % of the weight: lower their "
        "weight, so that together they decide little, or keep it, as the papers do",
    )
    select: str = parameter(
        "objective",
        Words(("objective", "medoid")),
        "which of several starts wins: the one with the lowest objective, or the one whose labels agree most with "
        "those of the others (adjusted Rand index)",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class BalanceParameters:
    """The parameter of estimators that bound the biases of hyperplanes."""

    balance: float | str | None = parameter(
        "auto",
        Number('a number of at least 0 and below 1 (at 1, w = 0 costs nothing), or "auto",', 0.0, 1.0, words=("auto",)),
        "most that the mean decision value may be away from 0 (more than two clusters: that two biases may differ). "
        '"auto" is 0.03; for two clusters from a graph start it is more, by the difference of their shares; else '
        "cutting planes count it from the biases that the start's labels want, if these pull hard (two clusters: with "
        'order="inside" never); for compact losses of StochasticMMC it is at least half the difference of the start\'s '
        "shares",
    )


@hide_transform
@dataclass(eq=False, repr=False, kw_only=True)
class TransformParameters:
    """The parameter of estimators that transform rows first."""

    transform: str = parameter(
        "none",
        Words(("none", "unit", "sqrt-unit", "bm25", "log-normalise", "auto")),
        'what is done to a row before anything else, as part of the model: "unit": scaled to norm 1; "sqrt-unit": '
        'square roots, then unit (pixels, histograms); "bm25": weights of words from their counts; "log-normalise": '
        'counts of cells, scaled to the median total, then log(1 + x). "auto" tells counts by themselves; for dense '
        "rows of at least 0 with a graph start, the graphs of a sample decide between sqrt-unit and none",
    )

    @property
    def transform_name(self) -> str:
        """Name of the transform of rows."""
        return str(self.__dict__["transform"])


@dataclass(eq=False, repr=False, kw_only=True)
class KernelParameters:
    """Parameters of a polynomial kernel and the kernel's name."""

    kernel: str = parameter(
        "rbf",
        Words(KERNELS),
        "exp(-gamma |x - p|²), (gamma x·p + coef0)^degree or x·p, of rows that are centred (or standardised)",
    )
    degree: int = parameter(
        3, Number(f"a whole number from 1 to {MOST}", 1, MOST + 1, whole=True), "of a polynomial kernel"
    )
    coef0: float = parameter(1.0, Number("a number of at least 0", 0.0), "of a polynomial kernel")


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureParameters(KernelParameters):
    """Parameters of estimators whose hyperplanes may be between features of the rows."""

    features: str = parameter(
        "raw",
        Words(FEATURES),
        'what the hyperplanes are in: "raw" columns; "axes": 64 principal axes (128 for more than 1,024 columns); '
        '"nystroem": a kernel by its values at a few landmarks; "lsa": 200 latent semantic axes, rows of norm 1 (for '
        'text; k-means starts on the first ones); "spectral", "smooth" or "umap" (needs umap-learn): features of the '
        "graph of nearest neighbours, which follow curved clusters. New rows get the features of the fitted rows "
        "nearest to them",
    )
    n_neighbors: int = parameter(
        7, Number("a whole number from 2 to 200", 2, 201, whole=True), "neighbours of a row in that graph"
    )
    graph: str = parameter("auto", GRAPH_RANGE, GRAPH_MEANING)
    n_anchors: int | str = parameter("auto", ANCHORS_RANGE, ANCHORS_MEANING)
    n_components: int = parameter(200, AT_LEAST_1, 'how many landmarks, with features="nystroem"')
    gamma: float | str = parameter(
        "auto",
        POSITIVE_OR_AUTO,
        'of the kernel. "auto" is 1 / (5 h²) for "rbf", with h the spacing of k-means centres, but at most 48 over the '
        'squared median distance of landmarks; and 1 / mean |x|² for "polynomial"',
    )
    landmarks: str = parameter(
        "k-means", Words(LANDMARKS), "centres of k-means on a sample of rows, or rows drawn at random"
    )
