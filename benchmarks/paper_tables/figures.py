"""Plots of the tables' figures, and the slope of a line in a plot of logarithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Curve = tuple[Sequence[float], Sequence[float]]


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of log y in log x, by least squares."""
    return float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-12)), 1)[0])


def draw(path: Path, title: str, curves: Mapping[str, Curve], x: str, y: str, logarithmic: bool = False) -> list[str]:
    """One plot of curves as an svg; the names of files written, none where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        print("matplotlib is not installed: no picture")
        return []
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "dmmc"
    from matplotlib import pyplot

    plot, axes = pyplot.subplots(figsize=(7, 4.2))
    for name, (across, up) in curves.items():
        axes.plot(across, up, marker="o", markersize=3, linewidth=1, label=name)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata: dict[str, Any] = {"Date": None}
    plot.savefig(path, bbox_inches="tight", metadata=metadata)
    pyplot.close(plot)
    return [path.name]
