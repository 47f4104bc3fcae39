"""What clusters are, as a browser shows it: names, profiles, classes, hover; readable on every screen."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_wine

import dmmc

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")]

FIND_FAINT = """
const read = (colour) => {
  const [r, g, b, a = 1] = colour.match(/[\\d.e-]+/g).map(Number);
  const unit = colour.startsWith("color(") ? 1 : 255;
  return [r / unit, g / unit, b / unit, a];
};
const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
const behind = (element) => {
  if (!element) return [1, 1, 1];
  const own = read(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own.slice(0, 3) : over(own, behind(element.parentElement));
};
const light = (c) => {
  const [r, g, b] = c.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const faint = [];
let looked = 0;
const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
  if (!text || element.closest("script, style, .modebar") || !element.getClientRects().length) continue;
  const style = getComputedStyle(element), svg = element instanceof SVGElement;
  const ground = behind(svg ? element.closest("div") : element);
  const ink = over(read(svg ? style.fill : style.color), ground);
  const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b);
  looked += 1;
  const contrast = (high + 0.05) / (low + 0.05);
  if (contrast < 4.5) faint.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
}
return [looked, faint];
"""
FIND_CUT = """
const clips = (e) => /auto|scroll|hidden/.test(getComputedStyle(e).overflowX);
const inside = (e) => e && e !== document.body && (clips(e) || inside(e.parentElement));
return [...document.querySelectorAll("main *")]
  .filter((e) => !inside(e) && e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => `${e.tagName}.${e.getAttribute("class")}`);
"""


@pytest.fixture(scope="module")
def outs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of a table with ids and of images, both with a truth."""
    folder, wine, digits = tmp_path_factory.mktemp("outs"), load_wine(as_frame=True), load_digits()
    frame = wine.data.set_axis([f"bottle {i}" for i in range(178)])
    quick: dict[str, Any] = {"method": "cpmmc", "max_iter": 30}
    truth = np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
    dmmc.fit(frame, 3, out=folder / "wine", truth=truth, **quick)
    few = digits.target < 3
    rows, shape = digits.data[few], (8, 8)
    dmmc.fit(rows, 3, out=folder / "digits", image_shape=shape, truth=digits.target[few], **quick)
    return {name: folder / name for name in ("wine", "digits")}


def test_names_and_profiles_are_those_of_the_profile(browser: Any, outs: dict[str, Path]) -> None:
    browser.open(outs["wine"] / "report.html")
    profile = pd.read_csv(outs["wine"] / "profile.csv")
    names = profile.groupby("cluster")["name"].first().tolist()
    assert browser.texts(".profile .name") == names
    assert browser.texts("#sizes td.named") == names
    told = browser.texts(".profile[data-of='1'] .features tbody th")
    assert told == profile["feature"][profile["cluster"] == 1].tolist()[: len(told)]
    assert len(told) == 6
    inside = browser.texts(".profile[data-of='1'] .features tbody td:nth-child(2)")
    assert float(inside[0].replace(",", "")) == pytest.approx(
        profile["inside"][profile["cluster"] == 1].iloc[0], rel=0.01
    )
    assert "are sure of theirs" in browser.texts(".sentence")[0]
    assert "To try: " in browser.texts(".sentence")[0]
    assert browser.said() == []


def test_a_cluster_that_is_chosen_leaves_its_profile_alone(browser: Any, outs: dict[str, Path]) -> None:
    browser.open(outs["wine"] / "report.html")
    browser.run("document.querySelector('.chooser [data-cluster=\"2\"]').click()")
    shown = "return [...document.querySelectorAll('.profile')].filter((e) => !e.hidden).map((e) => e.dataset.of)"
    assert browser.run(shown) == ["2"]


def test_the_table_of_classes_counts_the_rows(browser: Any, outs: dict[str, Path]) -> None:
    browser.open(outs["wine"] / "report.html")
    labels = pd.read_csv(outs["wine"] / "labels.csv")["label"]
    truth = np.array(["Barolo", "Grignolino", "Barbera"])[load_wine().target]
    wanted = pd.crosstab(labels, truth)
    classes = browser.texts(".confusion thead th")[1:]
    assert sorted(classes) == sorted(wanted.columns)
    counts = np.array(browser.texts(".confusion tbody td"), int).reshape(3, 3)
    assert np.array_equal(counts, wanted[classes].to_numpy())
    accuracy = dmmc.score(labels.to_numpy(), truth)["accuracy"]
    assert f"accuracy {accuracy:.3f}" in browser.texts("#truth .note")[0]


def test_pointing_at_a_row_tells_its_id_and_what_stands_out(browser: Any, outs: dict[str, Path]) -> None:
    browser.open(outs["wine"] / "report.html")
    browser.run("Plotly.Fx.hover('plot-map', [{curveNumber: 0, pointNumber: 3}])")
    browser.settle()
    (told,) = browser.texts("#plot-map .hoverlayer .hovertext")
    row = int(browser.run("return document.getElementById('plot-map').data[0].customdata[3]"))
    assert f"row {row}, bottle {row}" in told
    assert any(name in told for name in load_wine().feature_names)
    assert f"cluster 0: {browser.texts('.profile .name')[0]}" in told


def test_mean_images_are_drawn(browser: Any, outs: dict[str, Path]) -> None:
    browser.open(outs["digits"] / "report.html")
    assert browser.run("return [...document.querySelectorAll('.mean')].map((e) => e.naturalWidth)") == [8, 8, 8]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("name", ["wine", "digits"])
def test_everything_fits_the_screen_and_can_be_read(
    browser: Any, outs: dict[str, Path], tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    browser.look(width, scheme)
    browser.open(outs[name] / "report.html")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run(FIND_CUT) == []
    looked, faint = browser.run(FIND_FAINT)
    assert looked > 100
    assert faint == []
    size = {"x": 0, "y": 0, "width": width, "height": 2000, "scale": 0.5}
    told = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": size})
    (tmp_path / f"{name}-{width}-{scheme}.png").write_bytes(base64.b64decode(told["data"]))
    assert len(zlib.compress(base64.b64decode(told["data"]))) > 10_000, "an empty page is smaller"
