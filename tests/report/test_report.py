"""The report as text: structure, escaping, limits, odd content. What a browser makes of it is in tests/browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import sys
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmmc import report
from dmmc.report import Example, Page, figures, images, text
from dmmc.report import examples as examples_module
from dmmc.report import page as page_module
from dmmc.results import atomic_files

plotly = pytest.importorskip("plotly", reason="report: plotly is not installed")

MOST_BYTES = 6_000_000
HOSTILE = (
    "<script>window.__pwned=1</script>",
    "</script><script>window.__pwned=2</script>",
    "</style></title></textarea><img src=x onerror=alert(3)>",
    '" onmouseover="alert(4)" x=\'',
    "<a href='javascript:alert(5)'>link</a><b>bold</b><br>&lt;i&gt;",
    "\\\"';alert(6)//\\",
    "line\u2028para\u2029end\x00\x07\r\n\t",
    "evil\u202egnp.exe\u2066\u200f",
    "%{x} %{customdata} $\\alpha$ ${policy} $policy",
    "<!--<script>",
    "lone \ud800 surrogate",
    "שלום مرحبا 你好 🙂",
    "x" * 10_000,
)
TAGS = {
    *("html", "head", "meta", "link", "title", "style", "body", "main", "header", "nav", "section", "article", "div"),
    *("h1", "h2", "h3", "h4", "p", "dl", "dt", "dd", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "figure"),
    *("figcaption", "img", "bdi", "b", "br", "i", "small", "span", "button", "pre", "code", "script", "a"),
}


def page(k: int = 3, rows: int = 60, **changes: Any) -> Page:
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % k
    examples = [
        Example(cluster, kind, 10 * cluster + i, None, 0.5 + i, rng.random(6))
        for cluster in range(k)
        for kind in ("typical", "borderline")
        for i in range(2)
    ]
    run = {
        "parameters": {"C": 100.0, "n_init": 1},
        "versions": {"dmmc": "0.1", "numpy": "2"},
        "choices": {"method": "cpmmc"},
        "timings": {"total": 2.5},
        "data": {"n_rows": rows, "n_features": 6, "dtype": "float64", "name": "flowers.csv", "fingerprint": "ab12"},
        "warnings": [],
    }
    history = [
        {"iteration": i + 1, "objective": 1.0 - 0.1 * i, "gap": 10.0**-i, "planes": i, "flips": 0.0, "seconds": 0.1 * i}
        for i in range(5)
    ]
    content: dict[str, Any] = {
        "title": "flowers.csv",
        "command": "dmmc fit flowers.csv -k 3 -o out",
        "run": run,
        "history": history,
        "sizes": np.bincount(labels, minlength=k).tolist(),
        "margin_edges": np.linspace(0, 3, 11),
        "margin_counts": rng.integers(1, 9, (k, 10)),
        "map_xy": rng.standard_normal((rows, 2)),
        "map_labels": labels,
        "map_rows": np.arange(rows),
        "map_axes": ("first", "second"),
        "examples": examples,
        "feature_names": None,
        "image_shape": None,
    }
    return Page(**{**content, **changes})


class Reader(HTMLParser):
    """What a parser finds in a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def plots(self) -> dict[str, dict[str, Any]]:
        return {plot["id"]: plot for plot in json.loads(self.scripts[0])}

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read(content: Page) -> Reader:
    return Reader(report.render(content))


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [found for item in value.values() for found in strings(item)]
    if isinstance(value, list):
        return [found for item in value for found in strings(item)]
    return [value] if isinstance(value, str) else []


def hostile_page(k: int = 3) -> Page:
    plain = page(k)
    many = [HOSTILE[i % len(HOSTILE)] for i in range(40)]
    examples = [replace(one, name=many[i], kind=one.kind) for i, one in enumerate(plain.examples)]
    run = {
        "parameters": {name: name for name in HOSTILE},
        "versions": {name: [name, {"nested": name}] for name in HOSTILE},
        "choices": {"method": HOSTILE[0], "why": {HOSTILE[1]: {HOSTILE[2]: HOSTILE[3]}}},
        "data": {"n_rows": HOSTILE[0], "n_features": 6, "name": HOSTILE[1]},
        "timings": {"total": HOSTILE[2]},
        "warnings": list(HOSTILE),
        HOSTILE[2]: {HOSTILE[3]: HOSTILE[4]},
    }
    return replace(
        plain,
        title="".join(HOSTILE),
        command=" ".join(HOSTILE),
        run=run,
        map_axes=(HOSTILE[4], HOSTILE[8]),
        map_along=HOSTILE[4],
        examples=examples,
        feature_names=many[:6],
    )


# What is on the page


def test_the_sections_come_in_the_order_in_which_they_are_read() -> None:
    found = [attributes["id"] for attributes in read(page()).all("section")]
    assert found == [
        *("sizes", "map", "examples", "margins", "warnings", "convergence", "parameters", "versions", "command")
    ]


def test_the_headline_says_what_was_clustered_into_what_and_how_long_it_took() -> None:
    told = read(page()).text
    assert "flowers.csv" in told
    assert "60 rows of 6 features in 3 clusters, by cpmmc in 2.5 s." in told


def test_the_headline_of_a_table_says_how_many_columns_it_has() -> None:
    run = page().run
    told = read(page(run={**run, "data": {**run["data"], "n_columns": 4}})).text
    assert "60 rows of 4 columns (6 features) in 3 clusters" in told


def test_sizes_are_bars_and_a_table_with_shares() -> None:
    found = read(page(sizes=[30, 20, 10]))
    assert found.plots["plot-sizes"]["data"][0]["y"] == [30, 20, 10]
    for share in ("50.0 %", "33.3 %", "16.7 %"):
        assert share in found.text


def test_each_sampled_row_is_on_the_map_with_its_number() -> None:
    traces = read(page()).plots["plot-map"]["data"]
    assert [trace["meta"] for trace in traces] == [0, 1, 2]
    assert sorted(int(row) for trace in traces for row in trace["customdata"]) == list(range(60))


def test_the_margin_histogram_counts_every_row() -> None:
    counts = np.array([[0, 4, 4], [400, 0, 1], [0, 0, 0]])
    traces = read(page(margin_counts=counts, margin_edges=np.array([0.0, 1, 2, 3]))).plots["plot-margins"]["data"]
    drawn = {trace["meta"]: sum(trace["customdata"]) for trace in traces}
    assert drawn == {0: 8, 1: 401}


def test_bins_are_joined_where_rows_are_few_and_none_is_lost() -> None:
    counts = np.ones((2, 61))
    edges, joined = figures._join_bins(page(2, margin_counts=counts, margin_edges=np.linspace(0, 1, 62)))
    assert joined.shape == (2, len(edges) - 1)
    assert 10 < len(edges) < 40
    assert joined.sum() == counts.sum()
    assert (edges[0], edges[-1]) == (0.0, 1.0)


def test_convergence_shows_the_objective_and_the_gap_on_a_log_scale() -> None:
    plots = read(page()).plots
    assert plots["plot-objective"]["data"][0]["y"] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6])
    assert plots["plot-gap"]["layout"]["yaxis"]["type"] == "log"


def test_parameters_versions_command_and_warnings_are_told() -> None:
    told = read(page(run={**page().run, "warnings": ["a bound was active"]})).text
    for expected in (
        "n_init",
        "100",
        "numpy",
        "ab12",
        "dmmc fit flowers.csv -k 3 -o out",
        "a bound was active",
        "1 warning",
    ):
        assert expected in told


def test_plotly_accepts_every_plot() -> None:
    objects = pytest.importorskip("plotly.graph_objects")
    for name, make in figures.PLOTS.items():
        for content in (page(), page(40), hostile_page()):
            drawn = make(content)
            objects.Figure(data=drawn["data"], layout=drawn["layout"]), name


def test_the_same_content_gives_the_same_page() -> None:
    assert report.render(page()) == report.render(page())


# Self-contained


@pytest.mark.parametrize(
    "content", [page(), page(image_shape=(2, 3)), hostile_page()], ids=["plain", "images", "hostile"]
)
def test_nothing_is_asked_for_from_outside(content: Page) -> None:
    html = report.render(content)
    found = Reader(html)
    addresses = [value for _, attributes in found.tags for name, value in attributes.items() if name in ("src", "href")]
    assert addresses
    assert all(value is not None and value.startswith(("data:", "#")) for value in addresses)
    style = html.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_allows_the_two_scripts_and_nothing_else() -> None:
    found = read(page())
    policy = next(
        meta["content"] for meta in found.all("meta") if "content-security" in str(meta.get("http-equiv")).lower()
    )
    assert policy is not None
    allowed = re.search(r"script-src ([^;]*);", policy)
    assert allowed is not None
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in found.scripts[1:]]
    assert allowed[1].split() == [f"'sha256-{value}'" for value in hashes]
    assert policy.startswith("default-src 'none'")
    assert len(found.scripts) == 3
    assert sum("plotly.js v" in script for script in found.scripts) == 1


# Hostile strings


def test_hostile_strings_make_no_element_and_no_attribute() -> None:
    found, plain = read(hostile_page()), read(page())
    assert {tag for tag, _ in found.tags} <= TAGS
    assert len(found.scripts) == len(plain.scripts)
    assert found.scripts[1:] == plain.scripts[1:]
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert [a["href"] for a in found.all("a")] == ["#warnings"]


def test_hostile_strings_are_shown_as_they_are() -> None:
    told = read(hostile_page()).text
    for shown in (HOSTILE[0], HOSTILE[3], HOSTILE[5], HOSTILE[8], HOSTILE[11]):
        assert shown in told


def test_characters_that_are_not_seen_are_written_out() -> None:
    html = report.render(hostile_page())
    html.encode("utf-8")
    head = html.split("<script>")[0]
    for hidden in "\u2028\u2029\u202e\u2066\u200f\x00\x07\r":
        assert hidden not in head
    assert r"evil\u202egnp.exe" in head


def test_plotly_is_given_no_tags_but_our_own() -> None:
    for plot in read(hostile_page()).plots.values():
        for found in strings(plot):
            assert not re.search(r"<(?!br>|extra></extra>|/extra>)", found)
    titles = read(hostile_page()).plots["plot-map"]["layout"]
    assert titles["xaxis"]["title"]["text"].startswith("&lt;a href=")


def test_the_data_of_the_plots_cannot_end_their_script() -> None:
    raw = report.render(hostile_page()).split('id="figures">')[1].split("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(raw)
    assert raw.isascii()
    assert (
        text.dump_for_script({"a": HOSTILE[1]})
        == r'{"a":"\u003c/script\u003e\u003cscript\u003ewindow.__pwned=2\u003c/script\u003e"}'
    )


def test_long_strings_are_cut_and_say_so() -> None:
    shown = text.make_visible("a" * 6000 + "b" * 4000, 100)
    assert len(shown) < 130
    assert shown.startswith("aaa")
    assert shown.endswith("bbb (10,000 characters)")


# Limits


def test_a_page_of_a_hundred_clusters_of_noisy_images_stays_small() -> None:
    rng = np.random.default_rng(0)
    k, side = 100, 64
    examples = [
        Example(cluster, kind, i, f"image-{i}" * 20, 0.1, rng.random(side * side * 3))
        for cluster in range(k)
        for kind in ("typical", "borderline")
        for i in range(8)
    ]
    n = 20_000
    crowded = page(
        k,
        rows=n,
        examples=examples,
        image_shape=(side, side, 3),
        margin_edges=np.linspace(0, 1, 201),
        margin_counts=rng.integers(0, 9000, (k, 200)),
        history=[{"iteration": i, "objective": 1 / (i + 1), "gap": 1 / (i + 1), "seconds": i} for i in range(100_000)],
    )
    html = report.render(crowded)
    assert len(html.encode()) < MOST_BYTES
    found = Reader(html)
    assert len(found.all("article")) == k
    assert len(found.all("img")) == k * 2 * 4
    assert sum(len(trace["x"]) for trace in found.plots["plot-map"]["data"]) == figures.POINTS
    assert "5,000 rows of 20,000 sampled" in found.text
    curve = found.plots["plot-gap"]["data"][0]["x"]
    assert len(curve) <= figures.PASSES
    assert (curve[0], curve[-1]) == (0, 99_999)


def test_a_page_of_hostile_strings_stays_small() -> None:
    assert len(report.render(hostile_page()).encode()) < MOST_BYTES


def test_a_flood_of_parameters_and_warnings_is_cut_and_says_so() -> None:
    told = read(page(run={"parameters": {f"p{i}": i for i in range(5000)}, "warnings": ["careful"] * 5000})).text
    assert "and 4,600 more, in run.json" in told
    assert "and 4,900 more, in run.json" in told


def test_colours_are_distinct() -> None:
    for k in (1, 2, 10, 11, 100):
        assert len(set(figures.choose_colours(k))) == k


# Odd content


def test_numbers_that_are_not_finite_are_holes_in_the_curves() -> None:
    history = [
        {"iteration": 1, "objective": float("nan"), "gap": float("inf"), "seconds": None},
        {"iteration": 2, "objective": 0.5, "gap": 0.0},
        {"iteration": 3, "objective": -float("inf"), "gap": -1e-9, "planes": "?"},
        {"iteration": 4, "objective": 0.25, "gap": 0.125},
    ]
    plots = read(page(history=history)).plots
    assert plots["plot-objective"]["data"][0]["y"] == [None, 0.5, None, 0.25]
    assert plots["plot-gap"]["data"][0]["y"] == [None, None, None, 0.125]


def test_the_objective_of_each_pass_is_drawn_beside_the_best_so_far() -> None:
    history = [
        {"iteration": i + 1, "objective": objective, "best": best, "flips": 0.5}
        for i, (objective, best) in enumerate([(3.0, 3.0), (4.0, 3.0), (2.0, 2.0), (2.5, 2.0)])
    ]
    found = read(page(history=history))
    curves = found.plots["plot-objective"]["data"]
    assert [(curve["name"], curve["y"]) for curve in curves] == [
        ("objective", [3.0, 4.0, 2.0, 2.5]),
        ("best so far", [3.0, 3.0, 2.0, 2.0]),
    ]
    assert found.plots["plot-objective"]["layout"]["showlegend"]
    assert "4 passes over the data; at the end objective 2." in found.text


def test_a_method_without_a_gap_has_no_gap_plot() -> None:
    assert "plot-gap" not in read(page(history=[{"iteration": 1, "objective": 1.0}])).plots


def test_iterations_that_start_again_are_drawn_one_after_the_other() -> None:
    history = [{"iteration": i, "objective": 1.0} for i in (1, 2, 1, 2)]
    assert read(page(history=history)).plots["plot-objective"]["data"][0]["x"] == [1, 2, 3, 4]


def test_an_empty_history_is_said() -> None:
    found = read(page(history=[]))
    assert "No passes were recorded." in found.text
    assert "plot-objective" not in found.plots


def test_a_cluster_without_rows_has_a_bar_a_line_and_a_card() -> None:
    counts = np.array([[3, 1], [0, 0], [2, 2]])
    edges = np.array([0.0, 1.0, 2.0])
    some = [example for example in page().examples if example.cluster != 1]
    found = read(page(sizes=[4, 0, 4], margin_counts=counts, margin_edges=edges, examples=some))
    assert found.plots["plot-sizes"]["data"][0]["y"] == [4, 0, 4]
    assert "1 cluster without any row." in found.text
    assert len(found.all("article")) == 3


def test_one_sampled_row_is_enough_for_a_map() -> None:
    found = read(page(map_xy=np.zeros((1, 2)), map_labels=np.array([1]), map_rows=np.array([7])))
    assert [trace["customdata"] for trace in found.plots["plot-map"]["data"]] == [["7"]]


def test_nothing_sampled_and_nothing_kept_is_said() -> None:
    none = {"map_xy": np.zeros((0, 2)), "map_labels": np.zeros(0, int), "map_rows": np.zeros(0, int), "examples": []}
    bare = {"margin_edges": np.zeros(0), "margin_counts": np.zeros((3, 0)), "history": [], "run": {}}
    told = read(page(**none, **bare)).text
    for expected in ("No sampled rows", "No rows were kept", "No margins were recorded", "None were recorded"):
        assert expected in told


def test_rows_without_a_place_are_left_off_the_map_and_counted() -> None:
    xy = np.zeros((60, 2))
    xy[3, 0], xy[4, 1] = np.nan, np.inf
    found = read(page(map_xy=xy))
    assert "58 rows of 60 sampled" in found.text


def test_constant_margins_make_bars_that_can_be_seen() -> None:
    found = read(page(margin_edges=np.full(11, 0.7), margin_counts=np.eye(3, 10)))
    for trace in found.plots["plot-margins"]["data"]:
        assert min(trace["width"]) > 0


@pytest.mark.parametrize("edges", [np.full(11, np.nan), np.r_[np.linspace(0, 1, 10), np.inf]])
def test_margins_that_are_not_finite_do_not_stop_the_page(edges: np.ndarray) -> None:
    report.render(page(margin_edges=edges))


def test_examples_that_are_not_finite_do_not_stop_the_page() -> None:
    wild = [
        replace(one, margin=np.nan, values=np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0]))
        for one in page().examples
    ]
    report.render(page(examples=wild))
    report.render(page(examples=wild, image_shape=(2, 3)))


def test_a_run_with_other_types_than_expected_is_shown_all_the_same() -> None:
    run = {
        "parameters": [1, 2],
        "versions": "none",
        "data": None,
        "timings": 3,
        "warnings": "just one",
        "choices": {1: {2: 3}},
    }
    told = read(page(run=run)).text
    assert "just one" in told
    assert "60 rows in 3 clusters" in told


# Rows


def test_rows_are_images_when_the_shape_says_so() -> None:
    found = read(page(image_shape=(2, 3)))
    pictures = [str(image["src"]) for image in found.all("img")]
    assert len(pictures) == len(page().examples)
    width, height = struct.unpack(">II", base64.b64decode(pictures[0].split(",")[1])[16:24])
    assert (width, height) == (3, 2)


@pytest.mark.parametrize("shape", [(2, 4), (6,), (1, 2, 3, 1), (1, 3, 2), (-2, -3), ()])
def test_a_shape_that_does_not_fit_gives_numbers_instead(shape: tuple[int, ...]) -> None:
    found = read(page(image_shape=shape))
    assert not found.all("img")
    assert "feature 0" in found.text


def test_a_row_is_told_by_the_features_in_which_it_differs() -> None:
    values = np.ones((4, 9)) + 0.01 * np.random.default_rng(0).random((4, 9))
    values[0, 4] = 50.0
    examples = [Example(0, "typical", i, f"bottle-{i}", 1.0, row) for i, row in enumerate(values)]
    told = read(page(1, examples=examples, feature_names=[f"f{i}" for i in range(9)])).text
    assert "bottle-0 margin 1 f4 50" in " ".join(told.split())


def test_a_sparse_row_is_told_by_its_largest_features() -> None:
    row = np.zeros(50)
    row[[7, 11]] = 0.3, 0.9
    told = read(
        page(1, examples=[Example(0, "typical", 5, None, 1.0, row)], feature_names=[f"word{i}" for i in range(50)])
    ).text
    assert "row 5 margin 1 word11 0.9 word7 0.3" in " ".join(told.split())
    assert "word0" not in told


def decoded(png: bytes) -> np.ndarray:
    """A PNG as `images.encode_png` writes it: one IDAT chunk, no filters."""
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    size = struct.unpack(">I", png[33:37])[0]
    assert png[37:41] == b"IDAT"
    assert depth == 8
    lines = np.frombuffer(zlib.decompress(png[41 : 41 + size]), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape((height, width, 3) if colour == 2 else (height, width))


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (4, 3, 3)])
def test_a_png_holds_the_pixels_it_was_given(shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(decoded(images.encode_png(image)), image)


def test_images_share_one_scale_from_the_least_to_the_largest_value() -> None:
    uris = images.make_data_uris([np.array([0.0, 8.0]), np.array([16.0, np.nan])], (1, 2), 10**6)
    found = [decoded(base64.b64decode(uri.split(",")[1])).tolist() for uri in uris]
    assert found == [[[0, 128]], [[255, 0]]]


def test_a_large_image_is_made_smaller_by_means_over_tiles() -> None:
    image = np.arange(35, dtype=np.uint8).reshape(5, 7)
    small = images.shrink(image, 4)
    assert small.shape == (3, 4)
    assert small[0, 0] == np.rint(image[:2, :2].mean())
    assert small[2, 3] == image[4, 6]


def test_images_keep_to_their_budget() -> None:
    rows = np.random.default_rng(0).random((50, 96 * 96))
    uris = images.make_data_uris(list(rows), (96, 96), 100_000)
    assert sum(map(len, uris)) < 105_000


# Words and numbers


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0421, "0.042 s"),
        (3.14, "3.1 s"),
        (59.4, "59 s"),
        (250, "4 min 10 s"),
        (7500, "2 h 05 min"),
        (3599.9, "1 h 00 min"),
    ],
)
def test_durations_read_well(seconds: float, told: str) -> None:
    assert text.format_duration(seconds) == told


def test_numbers_read_well() -> None:
    assert [text.format_number(value, 3) for value in (0.012345, 1.0, 1234.5, 12e9, None, "x", float("nan"))] == [
        *("0.0123", "1", "1,234", "1.2e+10", "–", "–", "–")
    ]
    assert text.format_column([1.0, 0.95, float("nan")]) == ["1.00", "0.95", "–"]
    assert text.format_column([1234.5, 3.0]) == ["1,234", "3"]
    assert text.format_column([0.0, 0.0]) == ["0", "0"]
    assert (text.format_plural(1, "row"), text.format_plural(2000, "row"), text.format_plural(3, "pass", "es")) == (
        "1 row",
        "2,000 rows",
        "3 passes",
    )


# Files


def test_a_page_is_written_and_replaces_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("earlier")
    atomic_files.write_bytes(path, report.render(page()).encode())
    assert path.read_text("utf-8") == report.render(page())
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_that_cannot_be_written_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("earlier")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        atomic_files.write_bytes(path, report.render(page()).encode())
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_without_plotly_the_report_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert report.available()
    monkeypatch.setattr(page_module, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    page_module._read_plotly.cache_clear()
    assert not report.available()
    with pytest.raises(ImportError, match="pip install plotly jinja2"):
        report.render(page())
    page_module._read_plotly.cache_clear()


def test_no_budget_is_larger_than_the_page_may_be() -> None:
    assert MOST_BYTES - len(page_module._read_plotly()) > examples_module.IMAGE_BUDGET
