"""Alterations of what is in files: JSON, arrays, and files themselves, drawn at random from a generator.

Each gives the altered value, and says in a few words what was done.
"""

from __future__ import annotations

import copy
import json
import math
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Random = np.random.Generator

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 2.5, -0.0, 1e308, -1e308, 1e-320, 2**31, 2**53, 2**63, -(2**63), 10**400),
    *("", "x", "NaN", "converged", "../x", "float64", [], [0], [[]], {}, {"a": 1}, [1, "x", None]),
)


def pick(rng: Random, items: Any) -> Any:
    """One of some items."""
    return items[int(rng.integers(len(items)))]


def show(value: Any) -> str:
    """A value in a few characters."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)[:40]
    return f"{text!r}" if isinstance(value, str) else text


# ------------------------------------------------------------------------------------------------------------- JSON


def list_places(tree: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of keys and indices to all that is inside a value."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inside:
        yield (*before, key)
        yield from list_places(value, (*before, key))


def choose_place(tree: Any, rng: Random) -> tuple[Any, ...]:
    """Any place alike, or going down by chance: a long list has most places, but it is only one thing."""
    places = list(list_places(tree))
    if places and rng.random() < 0.3:
        return tuple(pick(rng, places))
    place: tuple[Any, ...] = ()
    while isinstance(tree, dict | list) and tree and (not place or rng.random() < 0.9):
        place = (*place, pick(rng, list(tree) if isinstance(tree, dict) else range(len(tree))))
        tree = tree[place[-1]]
    return place


def alter_json(tree: Any, rng: Random) -> tuple[Any, str]:
    """A copy with one thing changed."""
    tree = copy.deepcopy(tree)
    place = choose_place(tree, rng)
    if not place:
        return pick(rng, ODD), "all of it"
    parent = tree
    for key in place[:-1]:
        parent = parent[key]
    value = parent[place[-1]]
    where = ".".join(str(key)[:16] for key in place)
    how = rng.random()
    if how < 0.12:
        return tree, f"{where} {_change_members(parent, place[-1], rng)}"
    new = pick(rng, ODD) if how < 0.35 else _change_value(value, rng)
    parent[place[-1]] = new
    return tree, f"{where}: {show(value)} became {show(new)}"


def _change_members(parent: Any, key: Any, rng: Random) -> str:
    """Remove, add, repeat, rename or exchange a member of a list or dict."""
    what = pick(rng, ("removed", "added to", "renamed", "exchanged"))
    if what == "removed":
        del parent[key]
    elif what == "added to":
        parent.insert(key, copy.deepcopy(parent[key])) if isinstance(parent, list) else parent.update(more=1)
    elif what == "renamed" and isinstance(parent, dict):
        parent[f"{key}_"] = parent.pop(key)
    else:
        other = pick(rng, list(parent) if isinstance(parent, dict) else range(len(parent)))
        parent[key], parent[other] = parent[other], parent[key]
        what = f"exchanged with {other}"
    return what


def _change_value(value: Any, rng: Random) -> Any:
    """Something of the same kind, or nearly."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return pick(rng, (value + 1, value - 1, -value, 2 * value, 0, float(value), value + 0.5, 10**18, -(10**18)))
    if isinstance(value, float):
        return pick(
            rng, (value * 1.001, -value, value + 1, 0.0, value * 1e30, int(min(max(value, -1e15), 1e15)), 1e308)
        )
    if isinstance(value, str):
        if len(value) == 16 and set(value) <= set("0123456789abcdef"):  # the digits of a float
            return struct.pack(">d", change_number(struct.unpack(">d", bytes.fromhex(value))[0], rng)).hex()
        return pick(rng, ("", value[1:], value + "x", value.upper(), value[::-1], "0" * len(value)))
    if isinstance(value, list):
        return pick(
            rng, (value[:-1], value[1:], value + value, value[::-1], [value], {str(i): v for i, v in enumerate(value)})
        )
    if isinstance(value, dict):
        return pick(rng, (list(value.values()), list(value), {"inner": value}, {}))
    return pick(rng, ODD)


def change_number(value: float, rng: Random) -> float:
    """Another number, perhaps none."""
    changed = (
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -value,
        2.0 * value,
        value + 1.0,
        value * (1 + 1e-12),
        1e12,
        -1e30,
        1e308,
        -1.0,
    )
    return float(pick(rng, changed))


# ----------------------------------------------------------------------------------------------------------- arrays


def alter_array(array: Any, rng: Random) -> tuple[Any, str]:
    """An array of the same numbers in another form, or of other numbers in the same form."""
    name = str(pick(rng, list(ARRAYS)))
    with np.errstate(all="ignore"):
        return ARRAYS[name](array, rng), name


def _set_some(value: Any) -> Callable[[Any, Random], Any]:
    """Puts a value, if the dtype has it, at one place or at many."""

    def change(array: Any, rng: Random) -> Any:
        array = array.copy()
        if array.size:
            count = 1 if rng.random() < 0.6 else 1 + int(rng.integers(array.size))
            places = rng.choice(array.size, count, replace=False)
            flat = array.reshape(-1)
            new = value(flat[places], rng) if callable(value) else value
            flat[places] = np.asarray(new, np.float64).astype(array.dtype) if array.dtype.kind != "U" else "x"
        return array

    return change


def _cut(array: Any, rng: Random) -> Any:
    axis = int(rng.integers(max(array.ndim, 1)))
    return array[(slice(None),) * axis + (slice(0, -1),)] if array.ndim else array


def _extend(array: Any, rng: Random) -> Any:
    axis = int(rng.integers(max(array.ndim, 1)))
    return np.concatenate([array, array], axis=axis) if array.ndim and array.shape[axis] else np.zeros(3, array.dtype)


def _shuffle(array: Any, rng: Random) -> Any:
    return rng.permutation(array, axis=int(rng.integers(array.ndim))) if array.ndim else array


ARRAYS: dict[str, Callable[[Any, Random], Any]] = {
    "flat": lambda array, rng: array.reshape(-1),
    "transposed": lambda array, rng: np.ascontiguousarray(array.T),
    "by columns": lambda array, rng: np.asfortranarray(array),
    "in a row": lambda array, rng: array[None],
    "no axis": lambda array, rng: np.zeros((), array.dtype),
    "empty": lambda array, rng: array[:0] if array.ndim else np.zeros(0, array.dtype),
    "cut": _cut,
    "extended": _extend,
    "shuffled": _shuffle,
    "reversed": lambda array, rng: array[::-1] if array.ndim else array,
    "another dtype": lambda array, rng: array.astype(
        pick(rng, ("f4", "f8", ">f8", "f2", "i4", "i8", "u1", "u8", "?", "U8", "i2"))
    ),
    "huge shape": lambda array, rng: np.zeros((10**6, 0), array.dtype),
    "NaN": _set_some(np.nan),
    "infinite": _set_some(np.inf),
    "huge": _set_some(1e300),
    "large": _set_some(1e9),
    "a little": _set_some(lambda old, rng: old * (1 + 1e-9) + 1e-12),
    "one more": _set_some(lambda old, rng: old + 1.0),
    "negative": _set_some(lambda old, rng: -np.abs(old) - 1.0),
    "zero": _set_some(0.0),
    "random": _set_some(lambda old, rng: rng.standard_normal(old.shape) * 10.0 ** rng.integers(-3, 12)),
}


def alter_arrays(arrays: dict[str, Any], rng: Random) -> tuple[dict[str, Any], str]:
    """Some arrays by name, one of them changed, removed, added or exchanged with another."""
    name = str(pick(rng, sorted(arrays)))
    how = rng.random()
    if how < 0.05:
        return {key: array for key, array in arrays.items() if key != name}, f"{name} removed"
    if how < 0.08:
        return {**arrays, "more": arrays[name]}, "an array added"
    if how < 0.13:
        other = str(pick(rng, sorted(arrays)))
        return {**arrays, name: arrays[other], other: arrays[name]}, f"{name} exchanged with {other}"
    array, words = alter_array(arrays[name], rng)
    return {**arrays, name: array}, f"{name} {words}"


def alter_encoded(tree: Any, data: Any, rng: Random) -> tuple[Any, Any, str]:
    """A state as `state_codec.encode` gives it, with one of its arrays changed: its place, its form or its numbers."""
    tree = copy.deepcopy(tree)
    entries = [node for place in list_places(tree) if isinstance(node := _at(tree, place), dict) and "array" in node]
    if not entries:
        return tree, data, "nothing, as there is no array"
    entry = pick(rng, entries)
    dtype, shape, order, start = entry["array"]
    count = math.prod(shape) * np.dtype(dtype).itemsize
    array = np.frombuffer(data[start : start + count].tobytes(), dtype).reshape(shape, order=order).copy()
    array, words = alter_array(array, rng)
    new = np.ascontiguousarray(array)
    entry["array"] = [new.dtype.str, list(new.shape), pick(rng, "CCCCF"), len(data)]
    return tree, np.concatenate([data, new.reshape(-1).view(np.uint8)]), f"an array of {shape} {words}"


def _at(tree: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        tree = tree[key]
    return tree


# ------------------------------------------------------------------------------------------------------------ files


def alter_file(path: Path, rng: Random) -> str:
    """Another file, or something else, in the place of a file."""
    name = str(pick(rng, list(FILES)))
    FILES[name](path, rng)
    return f"{path.name} {name}"


def list_files(folder: Path) -> list[Path]:
    """All files below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _flip(path: Path, rng: Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 4))):
        if data:
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)


def _overwrite(path: Path, rng: Random) -> None:
    data = bytearray(path.read_bytes())
    start = int(rng.integers(len(data) + 1))
    data[start : start + 20] = rng.bytes(20)
    path.write_bytes(data)


def _truncate(path: Path, rng: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(rng.integers(len(data) + 1))])


def _replace_by_folder(path: Path, rng: Random) -> None:
    path.unlink()
    path.mkdir()


def _replace_by_link(path: Path, rng: Random) -> None:
    target = pick(rng, ("nowhere", "/dev/null", "/dev/zero", str(path.parent), path.name))
    path.unlink()
    path.symlink_to(target)


def _replace_by_pipe(path: Path, rng: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _exchange(path: Path, rng: Random) -> None:
    other = pick(rng, list_files(path.parent))
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


FILES: dict[str, Callable[[Path, Random], Any]] = {
    "flipped": _flip,
    "overwritten": _overwrite,
    "truncated": _truncate,
    "extended": lambda path, rng: path.write_bytes(path.read_bytes() + rng.bytes(int(rng.integers(1, 30)))),
    "emptied": lambda path, rng: path.write_bytes(b""),
    "missing": lambda path, rng: path.unlink(),
    "a folder": _replace_by_folder,
    "a link": _replace_by_link,
    "a pipe": _replace_by_pipe,
    "exchanged": _exchange,
    "beside another": lambda path, rng: path.with_name("more.npy").write_bytes(b"x"),
    "in a folder that is a file": lambda path, rng: (shutil.rmtree(path.parent), path.parent.write_bytes(b"x")),
}


def alter_json_file(path: Path, rng: Random) -> str:
    """One thing changed in a file of JSON, which stays JSON."""
    tree, words = alter_json(json.loads(path.read_text()), rng)
    path.write_text(json.dumps(tree))
    return f"{path.name}: {words}"
