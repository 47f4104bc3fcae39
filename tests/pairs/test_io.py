"""Must-links and cannot-links: read from anything, checked with the place that is wrong, closed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmmc import ClusteringWarning, InputError
from dmmc.pairs.closure import CLOSED, check_links, close_links
from dmmc.pairs.io import Links, read, write

PAIRS = [(0, 1, "must"), (2, 3, "cannot"), (4, 1, "must")]


def plain(links: Links) -> list[tuple[int, int, str]]:
    words = np.where(links.must, "must", "cannot").tolist()
    return list(zip(links.one.tolist(), links.other.tolist(), words, strict=True))


# ------------------------------------------------------------------------------------------------------ reading


def test_pairs_are_the_same_from_a_list_an_array_a_frame_and_a_file(tmp_path: Path) -> None:
    import pandas as pd

    file = tmp_path / "pairs.csv"
    file.write_text("i,j,link,who\n0,1,must,ann\n\n 2,3, cannot,bob\n4,1,Must,ann\n")
    as_numbers = np.array([(0, 1, 1), (2, 3, -1), (4, 1, 1)])
    frame = pd.DataFrame(PAIRS, columns=["i", "j", "link"])
    sources: list[Any] = [PAIRS, iter(PAIRS), as_numbers, as_numbers * 1.0, np.array(PAIRS, object), frame, file]
    for source in (*sources, str(file), np.array(PAIRS)):
        links = read(source)
        assert plain(links) == PAIRS
        assert links.digest == read(PAIRS).digest
    assert read(None).size == 0
    assert read(PAIRS[::-1]).digest != read(PAIRS).digest


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (7, "constraints are a int; an array, a list or a path of pairs is wanted"),
        (np.zeros((3, 2)), r"constraints are an array of shape \(3, 2\); \(m, 3\) is wanted"),
        ([(0, 1, "must"), (1, 2)], r"constraints\[1\] is \(1, 2\)"),
        ([(0, 1, "must"), "abc"], r"constraints\[1\] is 'abc'"),
        ([(0, 1, "may")], r"constraints\[0\] has 'may' as its link; 'must' or 'cannot' is wanted"),
        ([(0, 1, 0)], r"constraints\[0\] has 0 as its link"),
        ([(0, 1, True)], r"constraints\[0\] has True as its link"),
        ([(0.5, 1, "must")], r"constraints\[0\] names row 0.5; the number of a row"),
        ([(0, None, "must")], r"constraints\[0\] names row None"),
        ([(0, 2**70, "must")], r"constraints\[0\] names row 1180591620717411303424"),
    ],
)
def test_what_is_no_pair_is_refused_with_its_place(pairs: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(pairs)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n0,1\n", "begins with 'a,b'; the header i,j,link is wanted"),
        ("", "begins with ''"),
        ("i,j,link\n0,1,must\n\n0,x,must\n", "line 4 of .*pairs.csv names row 'x'"),
        ("i,j,link\n0,1,must\n0,2,both\n", "line 3 of .*pairs.csv has 'both' as its link"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_the_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read(tmp_path / "pairs.csv")


def test_a_file_that_is_no_csv_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"i,j,link\n\xff\xfe\n")
    for name, words in (("none.csv", "does not exist"), ("", "folder"), ("bytes.csv", "cannot be read as csv")):
        with pytest.raises(InputError, match=words):
            read(tmp_path / name)


def test_pairs_without_an_answer_are_left_out_and_counted(tmp_path: Path) -> None:
    write(tmp_path / "pairs.csv", np.array([[3, 4], [5, 6]]), np.array([f"row{i}" for i in range(9)]))
    text = (tmp_path / "pairs.csv").read_text()
    assert text.splitlines() == ["i,j,link,name_i,name_j", "3,4,,row3,row4", "5,6,,row5,row6"]
    (tmp_path / "pairs.csv").write_text(text.replace("3,4,,", "3,4,cannot,"))
    with pytest.warns(ClusteringWarning, match="1 pair.* have no link and are left out"):
        assert plain(read(tmp_path / "pairs.csv")) == [(3, 4, "cannot")]
    with pytest.raises(InputError, match="exists"):
        write(tmp_path / "pairs.csv", np.zeros((0, 2), int))


# ----------------------------------------------------------------------------------------------------- checking


@pytest.mark.parametrize(
    ("pairs", "k", "words"),
    [
        ([(0, 1, "must"), (1, 10, "must")], 2, r"constraints\[1\] names row 10, but rows are numbered 0 to 9"),
        ([(-1, 1, "must")], 2, "names row -1"),
        ([(0, 1, "must"), (3, 3, "cannot")], 3, r"constraints\[1\] links row 3 with itself"),
        (
            [(0, 1, "must"), (1, 0, "cannot")],
            5,
            r"constraints\[1\] says that rows 1 and 0 cannot be together, but the opposite follows from other pairs: "
            r"1 must 0 \(constraints\[0\]\); one of them has to go",
        ),
        (
            [(0, 1, "must"), (5, 6, "cannot"), (2, 1, "must"), (2, 3, "must"), (0, 3, "cannot")],
            5,
            r"constraints\[4\] says that rows 0 and 3 cannot .* 0 must 1 \(constraints\[0\]\), 1 must 2 "
            r"\(constraints\[2\]\), 2 must 3 \(constraints\[3\]\)",
        ),
        (
            [(0, 1, "cannot"), (1, 2, "cannot"), (0, 2, "cannot")],
            2,
            r"constraints\[2\] .* 0 and 2 cannot be together, but with two clusters the opposite follows from other "
            r"pairs: 0 cannot 1 \(constraints\[0\]\), 1 cannot 2 \(constraints\[1\]\)",
        ),
        (
            [(0, 1, "cannot"), (1, 2, "must"), (4, 2, "cannot"), (4, 5, "must"), (0, 5, "cannot"), (0, 4, "must")],
            2,
            r"constraints\[4\] .* 0 and 5 cannot .* 0 cannot 1 .* 1 must 2 .* 2 cannot 4 .* 4 must 5",
        ),
    ],
)
def test_links_that_cannot_be_are_refused_with_the_place_and_the_chain(pairs: Any, k: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_links(read(pairs), 10, k)


def test_the_line_and_the_chain_of_a_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("i,j,link\n0,1,must\n1,2,must\n2,0,cannot\n")
    with pytest.raises(InputError, match=r"line 4 of .*p.csv says that rows 2 and 0 .* 2 must 1 \(line 3\)"):
        check_links(read(tmp_path / "p.csv"), 3, 3)


@pytest.mark.parametrize("k", [2, 3])
def test_of_a_long_chain_both_ends_are_named_and_the_rest_is_counted(k: int) -> None:
    chain = [(i, i + 1, "must") for i in range(5000)]
    with pytest.raises(InputError) as error:
        check_links(read([*chain, (5000, 0, "cannot")]), 5001, k)
    said = str(error.value)
    assert len(said) < 600
    assert "5000 must 4999 (constraints[4999]), 4999 must 4998" in said
    assert "... 4992 more ..., 4 must 3 (constraints[3])" in said
    assert said.endswith("1 must 0 (constraints[0]); one of them has to go.")


def test_three_rows_may_all_be_apart_in_three_clusters() -> None:
    assert check_links(read([(0, 1, "cannot"), (1, 2, "cannot"), (0, 2, "cannot")]), 3, 3).size == 3


def test_pairs_given_twice_count_once_and_are_counted() -> None:
    pairs = [(0, 1, "must"), (2, 3, "cannot"), (1, 0, "must"), (0, 1, "must")]
    with pytest.warns(ClusteringWarning, match=r"2 of 4 pairs were given before \(constraints\[2\]: rows 1 and 0\)"):
        links = check_links(read(pairs), 4, 2)
    assert plain(links) == pairs[:2]
    assert links.lines.tolist() == [0, 1]


# ------------------------------------------------------------------------------------------------------ closing


def implied(rows: int, links: Iterable[tuple[int, int, str]], k: int) -> dict[tuple[int, int], bool]:
    """What follows of each pair, by applying the rules until nothing new comes out."""
    known: dict[tuple[int, int], bool] = {}
    for i, j, link in links:
        known[i, j] = known[j, i] = link == "must"
    grew = True
    while grew:
        grew = False
        for (a, b), one in list(known.items()):
            for c in range(rows):
                other = known.get((b, c))
                if other is None or c == a or (a, c) in known or not (one or other or k == 2):
                    continue
                known[a, c] = known[c, a] = one == other
                grew = True
    return known


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(1, 12))
def test_the_closure_is_all_that_follows(seed: int, k: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=8)
    ends = [rng.choice(8, 2, replace=False).tolist() for _ in range(count)]
    pairs = list({(min(e), max(e), "must" if truth[e[0]] == truth[e[1]] else "cannot") for e in ends})
    found = close_links(check_links(read(pairs), 8, k), k)
    for kind, wanted in ((found.must, True), (found.cannot, False)):
        ends = found.rows[kind.ends]
        assert {tuple(pair) for pair in ends.tolist()} == {
            pair for pair, must in implied(8, pairs, k).items() if must is wanted and pair[0] < pair[1]
        }
        assert (kind.weight > 0).all()
    assert found.cannot.weight.sum() == pytest.approx(sum(link == "cannot" for _, _, link in pairs))
    assert found.must.weight.sum() >= sum(link == "must" for _, _, link in pairs) - 1e-9


def test_what_follows_weighs_no_more_than_what_was_said() -> None:
    found = close_links(read([(0, 1, "must"), (1, 2, "must"), (5, 6, "must"), (2, 7, "cannot")]), 3)
    assert found.rows[found.must.ends].tolist() == [[0, 1], [0, 2], [1, 2], [5, 6]]
    np.testing.assert_allclose(found.must.weight, [2 / 3, 2 / 3, 2 / 3, 1])
    assert found.rows[found.cannot.ends].tolist() == [[0, 7], [1, 7], [2, 7]]
    np.testing.assert_allclose(found.cannot.weight, 1 / 3)


def test_a_closure_too_large_to_write_down_is_what_was_given() -> None:
    rows = np.arange(2 + int(np.sqrt(2 * CLOSED)))
    chain = [(int(i), int(i) + 1, "must") for i in rows[:-1]]
    found = close_links(read(chain), 2)
    assert found.must.ends.tolist() == [[i, j] for i, j, _ in chain]
    assert (found.must.weight == 1).all()


def test_a_hundred_thousand_links_are_checked_and_closed() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(10, size=70_000)
    ends = np.unique(np.sort(rng.integers(70_000, size=(100_000, 2)), axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    link = np.where(truth[ends[:, 0]] == truth[ends[:, 1]], 1, -1)
    links = check_links(read(np.column_stack([ends, link])), 70_000, 10)
    found = close_links(links, 10)
    assert len(found.must.ends) >= np.count_nonzero(link == 1)
    assert np.ptp(truth[found.rows[found.must.ends]], axis=1).max() == 0


def test_one_wrong_pair_among_many_of_two_clusters_is_found_and_named() -> None:
    star = [(0, j, "must") for j in range(1, 8001)]
    with pytest.raises(InputError, match=r"constraints\[8000\]"):
        check_links(read([*star, (17, 4000, "cannot")]), 10_000, 2)


@pytest.mark.parametrize("empty", [None, float("nan"), ""])
def test_pairs_of_a_frame_without_an_answer_are_left_out_and_counted(empty: Any) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"i": [0, 2, 4], "j": [1, 3, 5], "link": ["must", empty, "cannot"]})
    with pytest.warns(ClusteringWarning, match=r"1 pair\(s\) of constraints have no link"):
        assert plain(read(frame)) == [(0, 1, "must"), (4, 5, "cannot")]


@pytest.mark.parametrize("link", [float("nan"), float("inf"), 0.5])
def test_a_number_that_is_no_link_is_refused(link: float) -> None:
    with pytest.raises(InputError, match=r"constraints\[0\]"):
        read([(0, 1, link)])
