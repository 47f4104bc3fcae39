"""The report as a browser shows it: drawn, quiet, alone, inert, and readable on every screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_wine
from waits import until

import dmmc
from dmmc import report
from dmmc.report import Example, Page, text

pytestmark = pytest.mark.slow
HOSTILE = (
    "<script>window.__pwned=1</script>",
    "</script><script>window.__pwned=2</script>",
    '</style></title></textarea><img src=x onerror="window.__pwned=3;alert(3)">',
    '" onmouseover="window.__pwned=4" autofocus onfocus="window.__pwned=4" x=\'',
    "<a href='javascript:window.__pwned=5'>link</a><b>bold</b><br>&lt;i&gt;",
    "<svg onload=window.__pwned=6><style>*{display:none}</style><iframe src=https://example.com></iframe>",
    "\\\"';window.__pwned=7//\\",
    "line\u2028para\u2029end\x00\r\n",
    "evil\u202egnp.exe\u2066",
    "%{x} %{customdata} $\\alpha$ {{x}}",
    "<!--<script>",
    "lone \ud800 surrogate",
    "שלום مرحبا 你好 🙂",
    "x" * 10_000,
)


def clustered(X: np.ndarray, k: int, **changes: Any) -> Page:
    """Content made from k-means, whose distances stand in for scores."""
    model = KMeans(k, n_init=1, random_state=0).fit(X)
    scores = -model.transform(X) / X.std()
    order = np.argsort(-np.bincount(model.labels_, minlength=k), kind="stable")
    labels = np.argsort(order)[model.labels_]
    first, second = np.sort(scores, axis=1)[:, :-3:-1].T
    margins = first - second
    edges = np.linspace(0, margins.max(), 61)
    rows = np.arange(min(3000, len(X))) * len(X) // min(3000, len(X))
    centred = scores - scores.mean(axis=0)
    examples = []
    for cluster in range(k):
        members = np.flatnonzero(labels == cluster)
        away = ((X[members] - X[members].mean(axis=0)) ** 2).sum(axis=1)
        for kind, by in (("typical", away), ("borderline", margins[members])):
            chosen = members[np.argsort(by, kind="stable")[:8]]
            examples += [Example(cluster, kind, int(i), None, float(margins[i]), X[i]) for i in chosen]
    content: dict[str, Any] = {
        "title": "digits",
        "command": f"dmmc fit digits.zarr -k {k} -o out",
        "run": {
            "parameters": {"n_clusters": k, "C": "auto"},
            "versions": {"dmmc": "0.1.0"},
            "timings": {"total": 1.25},
            "data": {"n_rows": len(X), "n_features": X.shape[1], "dtype": "float64", "name": "digits"},
            "choices": {"method": "cpmmc"},
            "warnings": ["a count bound was active at the end"],
        },
        "history": [
            {"iteration": i + 1, "objective": 40 - 30 / (i + 1), "gap": 100 * 0.7**i, "planes": i, "seconds": 0.01 * i}
            for i in range(26)
        ],
        "sizes": np.bincount(labels, minlength=k).tolist(),
        "margin_edges": edges,
        "margin_counts": np.stack([np.histogram(margins[labels == cluster], edges)[0] for cluster in range(k)]),
        "map_xy": (centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T)[rows],
        "map_labels": labels[rows],
        "map_rows": rows,
        "map_axes": ("first direction", "second direction"),
        "examples": examples,
        "feature_names": None,
        "image_shape": None,
    }
    return Page(**{**content, **changes})


@cache
def digits() -> Page:
    return clustered(load_digits().data, 10, image_shape=(8, 8))


@cache
def wine() -> Page:
    data = load_wine()
    return clustered(data.data, 3, feature_names=list(data.feature_names))


@cache
def hundred() -> Page:
    rng = np.random.default_rng(0)
    return clustered(np.repeat(4 * rng.standard_normal((100, 12)), 40, axis=0) + rng.standard_normal((4000, 12)), 100)


@cache
def hostile() -> Page:
    plain = wine()
    names = [HOSTILE[i % len(HOSTILE)] for i in range(len(plain.examples))]
    run = {
        "parameters": {name: name for name in HOSTILE},
        "versions": {name: [name, {"nested": name}] for name in HOSTILE},
        "choices": {"method": HOSTILE[2], "why": {HOSTILE[0]: {HOSTILE[1]: HOSTILE[3]}}},
        "warnings": list(HOSTILE),
        HOSTILE[2]: {HOSTILE[3]: HOSTILE[5]},
    }
    return replace(
        plain,
        title="".join(HOSTILE[:6]),
        command=" ".join(HOSTILE),
        run=run,
        map_axes=(HOSTILE[4], HOSTILE[5]),
        map_rows=np.array([HOSTILE[4]] * len(plain.map_rows), dtype=object),
        examples=[replace(one, name=name) for one, name in zip(plain.examples, names, strict=True)],
        feature_names=names[:13],
    )


@cache
def odd() -> Page:
    return replace(
        wine(),
        sizes=[5, 0, 3],
        history=[{"iteration": 1, "objective": float("nan"), "gap": float("inf")}, {"iteration": 2, "gap": 1.0}],
        margin_edges=np.full(11, 0.5),
        margin_counts=np.array([[5.0] + [0] * 9, [0] * 10, [3.0] + [0] * 9]),
        map_xy=np.array([[0.3, 0.4]]),
        map_labels=np.array([2]),
        map_rows=np.array([7]),
    )


@cache
def bare() -> Page:
    none = np.zeros(0)
    return replace(
        wine(),
        run={},
        history=[],
        margin_edges=none,
        margin_counts=np.zeros((3, 0)),
        map_xy=np.zeros((0, 2)),
        map_labels=none,
        map_rows=none,
        examples=[],
    )


PAGES = {make.__name__: make for make in (digits, wine, hundred, hostile, odd, bare)}


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of each page, made once."""
    folder = tmp_path_factory.mktemp("reports")

    def file(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(report.render(PAGES[name]()), encoding="utf-8")
        return path

    return file


def drawn(browser: Any, name: str) -> tuple[float, float]:
    """Width and height of what a plot has drawn."""
    script = "const box = document.querySelector(arguments[0]).getBoundingClientRect(); return [box.width, box.height]"
    width, height = browser.run(script, f"#{name} .main-svg .overplot")
    return float(width), float(height)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_quietly_and_asks_for_nothing_from_outside(
    name: str, browser: Any, pages: Callable[[str], Path]
) -> None:
    browser.open(pages(name))
    assert browser.said() == []
    assert browser.asked() == {pages(name).as_uri()}
    content = PAGES[name]()
    assert browser.count("#plot-sizes .bars .point path") == len(content.sizes)
    assert browser.count("#plot-map .points path") == len(content.map_rows)
    assert browser.count("#plot-margins .bars") == (np.sum(content.margin_counts, axis=1) > 0).sum()
    plots = browser.run("return [...document.querySelectorAll('main .plot')].map(e => e.id)")
    assert len(plots) == {"bare": 1, "odd": 4}.get(name, 5)
    for plot in plots:
        width, height = drawn(browser, plot)
        assert min(width, height) > (4 if name == "odd" else 80), plot


def test_a_subspace_is_shown_along_its_first_two_components(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 9)) + 9.0 * np.eye(9)[np.arange(200) % 4]
    run = dmmc.fit(X, 4, method="smmc", out=tmp_path / "out")
    browser.open(tmp_path / "out" / "report.html")
    assert browser.said() == []
    assert browser.texts("#plot-map .xtitle") == ["first component of the subspace"]
    assert browser.texts("#plot-map .ytitle") == ["second component of the subspace"]
    assert "along the first two of the 3 dimensions" in browser.texts("#map .note")[0]
    dots = browser.run("return document.getElementById('plot-map').data.map(t => [t.meta, t.customdata, t.x, t.y])")
    assert browser.count("#plot-map .points path") == 200
    for cluster, rows, x, y in dots:
        chosen = [int(row) for row in rows]
        assert (run.labels[chosen] == cluster).all()
        np.testing.assert_allclose(np.stack([x, y]).T, run.model.transform(X)[chosen][:, :2], rtol=1e-3, atol=1e-4)


def test_bars_are_as_high_as_their_clusters_are_large(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.open(pages("digits"))
    script = (
        "return [...document.querySelectorAll('#plot-sizes .point path')].map(e => e.getBoundingClientRect().height)"
    )
    heights = np.array(browser.run(script))
    sizes = np.array(digits().sizes)
    np.testing.assert_allclose(heights / heights.max(), sizes / sizes.max(), atol=0.02)


def test_rows_that_are_images_are_seen_as_images(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.open(pages("digits"))
    script = "return [...document.images].map(i => [i.complete, i.naturalWidth, i.naturalHeight, i.clientWidth])"
    found = browser.run(script)
    assert len(found) == len(digits().examples)
    assert all(complete and (width, height) == (8, 8) and shown >= 24 for complete, width, height, shown in found)


def point_at(browser: Any, selector: str) -> str:
    """Move the mouse to an element; what the label says that appears."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    element = browser.driver.find_elements(By.CSS_SELECTOR, selector)[0]
    browser.run("arguments[0].scrollIntoView({block: 'center'})", element)
    browser.settle()
    ActionChains(browser.driver).move_to_element(element).perform()
    until(lambda: browser.count(".hoverlayer .hovertext text") > 0, "a hover label")
    return "".join(browser.texts(".hoverlayer .hovertext text"))


def test_a_dot_tells_its_row(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.open(pages("odd"))
    assert point_at(browser, "#plot-map .points path") == "row 7, cluster 2"


def test_a_bar_tells_rows_and_share(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.open(pages("odd"))
    assert point_at(browser, "#plot-sizes .point path") == "cluster 0: 5 rows, 62.5 %"
    assert browser.said() == []


def test_a_cluster_can_be_brought_to_the_front_and_put_back(browser: Any, pages: Callable[[str], Path]) -> None:
    from selenium.webdriver.common.by import By

    browser.open(pages("digits"))
    shown = "return [...document.querySelectorAll('.card')].filter(c => c.offsetHeight > 0).map(c => c.dataset.of)"
    faint = "return document.getElementById('plot-map').data.map(trace => trace.opacity ?? 1)"
    assert browser.run(shown) == [str(cluster) for cluster in range(10)]

    browser.driver.find_element(By.CSS_SELECTOR, '.chooser button[data-cluster="3"]').click()
    browser.settle()
    assert browser.run(shown) == ["3"]
    assert [strength == 1 for strength in browser.run(faint)] == [cluster == 3 for cluster in range(10)]
    assert browser.texts('.chooser [aria-pressed="true"]') == ["3"]

    browser.driver.find_element(By.CSS_SELECTOR, '.chooser button[data-cluster=""]').click()
    browser.settle()
    assert browser.run(shown) == [str(cluster) for cluster in range(10)]
    assert set(browser.run(faint)) == {1}
    assert browser.said() == []


def test_hostile_names_are_shown_and_not_run(browser: Any, pages: Callable[[str], Path]) -> None:
    from selenium.common.exceptions import NoAlertPresentException

    browser.open(pages("hostile"))
    label = point_at(browser, "#plot-map .points path")
    over = "for (const e of document.querySelectorAll('main *')) e.dispatchEvent(new MouseEvent('mouseover'))"
    browser.run(over)
    browser.settle()
    assert browser.run("return typeof window.__pwned") == "undefined"
    with pytest.raises(NoAlertPresentException):
        _ = browser.driver.switch_to.alert.text
    assert browser.said() == []
    assert browser.asked() == {pages("hostile").as_uri()}
    # not an element, not a handler, not a link, neither in the page nor in the plots
    assert browser.count("main script, iframe, object, embed, form, input, textarea, main style") == 0
    assert browser.count("svg a, svg script, svg image, main a:not([href='#warnings'])") == 0
    handlers = (
        "return [...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))"
    )
    assert browser.run(handlers) == []
    # and shown as written
    assert label == f"row {text.make_visible(HOSTILE[4], 60)}, cluster {label[-1]}"
    assert browser.texts("#plot-map .xtitle") == [text.make_visible(HOSTILE[4], 60)]
    assert browser.texts("#plot-map .ytitle") == [text.make_visible(HOSTILE[5], 60)]
    assert browser.texts("h1") == [text.make_visible("".join(HOSTILE[:6]), 160)]
    assert browser.driver.title == text.make_visible("".join(HOSTILE[:6]), 160)


ATTACKS = (
    "const s = document.createElement('script'); s.textContent = 'window.__pwned = 1'; document.body.append(s)",
    "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.__pwned = 1\">')",
    "document.body.insertAdjacentHTML('beforeend', '<svg onload=\"window.__pwned = 1\"></svg>')",
    "const a = document.createElement('a'); a.href = 'javascript:window.__pwned = 1'; a.click()",
)


def test_what_would_slip_past_the_escapes_still_cannot_run(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.open(pages("bare"))
    for attack in ATTACKS:
        browser.run(attack)
        browser.settle()
        assert browser.run("return typeof window.__pwned") == "undefined"
        assert any("Content Security Policy" in message for message in browser.said()), attack


def too_wide(browser: Any) -> list[str]:
    """Elements that reach beyond the screen, those inside something that scrolls left out."""
    script = """
        const clips = (e) => /auto|scroll|hidden/.test(getComputedStyle(e).overflowX);
        const scrolls = (e) => e && (clips(e) || scrolls(e.parentElement));
        return [...document.querySelectorAll('main, main *:not(svg *)')]
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement))
            .map(e => `${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`);
    """
    return list(browser.run(script))


@pytest.mark.parametrize("name", ["digits", "wine", "hundred", "hostile"])
def test_nothing_reaches_beyond_a_narrow_screen(name: str, browser: Any, pages: Callable[[str], Path]) -> None:
    browser.look(390)
    browser.open(pages(name))
    for width in (390, 320, 800, 390):
        browser.look(width)
        until(lambda width=width: 100 < drawn(browser, "plot-map")[0] < width, f"a map for {width}")
        until(lambda: too_wide(browser) == [], f"nothing beyond {width}")
        assert browser.run("return document.documentElement.scrollWidth") <= width
        for plot in ("plot-sizes", "plot-margins"):
            assert drawn(browser, plot)[0] > 100


def brightness(colour: str) -> float:
    red, green, blue = (float(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3])
    return (0.3 * red + 0.6 * green + 0.1 * blue) / 255


def test_text_and_plots_are_readable_in_light_and_dark(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.open(pages("digits"))
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    for scheme, width in (("light", 1200), ("dark", 1200), ("dark", 390), ("light", 390)):
        browser.look(width, scheme)
        browser.settle()
        for behind in ("body", "section"):
            ground = brightness(browser.run(style, behind, "backgroundColor"))
            assert ground < 0.2 if scheme == "dark" else ground > 0.9
        for selector in ("#plot-map .xtick text", "#plot-map .xtitle", "#plot-sizes .bartext", "#plot-gap .ytick text"):
            assert abs(brightness(browser.run(style, selector, "fill")) - ground) > 0.4, (scheme, selector)
        for selector in ("h1", "p.note", "td", "figcaption", "button"):
            assert abs(brightness(browser.run(style, selector, "color")) - ground) > 0.4, (scheme, selector)
        assert len(browser.driver.get_screenshot_as_png()) > 10_000


def test_a_hundred_clusters_stay_usable(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.open(pages("hundred"))
    heights = "return Object.fromEntries([...document.querySelectorAll('section')].map(s => [s.id, s.offsetHeight]))"
    assert max(browser.run(heights).values()) < 1100
    assert browser.run("return document.querySelector('.chooser').offsetHeight") < 120
    assert browser.count(".cards .card") == 100


def test_on_paper_everything_is_dark_on_white_and_fits_the_sheet(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.look(1200, "dark")
    browser.open(pages("digits"))
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.settle()
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert brightness(browser.run(style, "section", "backgroundColor")) == pytest.approx(1.0)
    assert brightness(browser.run(style, "#plot-map .xtitle", "fill")) < 0.3
    assert browser.run("return document.querySelector('.chooser').offsetHeight") == 0
    assert drawn(browser, "plot-map")[0] <= 44 * 16
    below = """
        const bottom = (e) => e.getBoundingClientRect().bottom;
        const plots = [...document.querySelectorAll('.plot .main-svg')];
        return plots.filter(e => bottom(e) > bottom(e.closest('section')) + 1);
    """
    assert browser.run(below) == []
    assert browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    until(lambda: drawn(browser, "plot-map")[0] > 800, "the map as wide as before")
    assert browser.said() == []


def test_without_scripts_the_tables_and_pictures_are_still_there(browser: Any, pages: Callable[[str], Path]) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get(pages("digits").as_uri())
        shown = browser.driver.execute_cdp_cmd(
            "Runtime.evaluate", {"expression": "document.querySelector('main').innerText"}
        )
        assert "1,797 rows of 64 features" in shown["result"]["value"]
        assert "median margin" in shown["result"]["value"]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
