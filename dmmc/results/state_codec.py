"""States (named tuples of arrays, numbers and text) as JSON and bytes, bit for bit, and back; reading runs no code.

A JSON list is a tuple; text, whole numbers, true, false and null are themselves. Everything else is an object with
one key that says what it is: the 16 hexadecimal digits of a float, a scalar of numpy, a dict, a named tuple, or an
array, whose numbers are in the bytes.
"""

import math
import re
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.array_types import Array
from dmmc.errors import InputError

_DTYPE = re.compile(r"[<>|][biufc][0-9]{1,2}")  # of numbers; those that numpy would need pickle for do not match


def encode(value: Any) -> tuple[Any, NDArray[np.uint8]]:
    """The value as JSON, and the bytes of its arrays; an array that occurs twice is written once."""
    writer = _Writer()
    tree = writer.encode(value)
    return tree, np.concatenate(writer.parts)


class _Writer:
    def __init__(self) -> None:
        self.parts = [np.zeros(0, np.uint8)]
        self._size = 0
        self._known: dict[int, dict[str, Any]] = {}

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return {"float": struct.pack(">d", value).hex()}
        if kind is np.ndarray:
            return self._encode_array(value)
        if isinstance(value, np.generic):
            return {"scalar": [_check_dtype(value.dtype.str), value.tobytes().hex()]}
        if kind is tuple:
            return [self.encode(item) for item in value]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"named": [kind.__name__, self._encode_members(zip(value._fields, value, strict=True))]}
        if kind is dict and all(type(key) is str for key in value):
            return {"dict": self._encode_members(value.items())}
        raise TypeError(f"a {kind.__name__} cannot be part of a checkpoint")

    def _encode_members(self, members: Iterable[tuple[str, Any]]) -> list[Any]:
        return [[name, self.encode(item)] for name, item in members]  # in their order, which an object does not keep

    def _encode_array(self, array: Array) -> dict[str, Any]:
        if id(array) in self._known:
            return self._known[id(array)]
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous  # products of it have other last bits
        flat = (array.T if by_columns else array).reshape(-1)
        order = "F" if by_columns else "C"
        entry = {"array": [_check_dtype(array.dtype.str), list(array.shape), order, self._size]}
        self.parts.append(np.ascontiguousarray(flat).view(np.uint8))
        self._size += array.nbytes
        self._known[id(array)] = entry
        return entry


def _check_dtype(dtype: str) -> str:
    if not _DTYPE.fullmatch(dtype):
        raise TypeError(f"dtype {dtype} cannot be part of a checkpoint")
    return dtype


def decode(tree: Any, data: Array, types: Iterable[type[Any]], name: str) -> Any:
    """The value again, with named tuples only of these types; `name` is for messages.

    Anything that `encode` does not write is an InputError.
    """
    try:
        return _Reader(data, {kind.__name__: kind for kind in types}).decode(tree)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError, struct.error) as error:
        raise InputError(f"{name} is damaged: it holds what dmmc does not write.") from error


class _Reader:
    def __init__(self, data: Array, types: Mapping[str, type[Any]]) -> None:
        if data.dtype != np.uint8 or data.ndim != 1:
            raise ValueError("bytes are wanted")
        self._data = data.tobytes()
        self._types = types
        self._known: dict[tuple[Any, ...], Array] = {}

    def decode(self, tree: Any) -> Any:
        if tree is None or type(tree) in (bool, int, str):
            return tree
        if type(tree) is list:
            return tuple([self.decode(item) for item in tree])
        if type(tree) is not dict:
            raise ValueError("neither a value nor an object")
        ((kind, said),) = tree.items()
        if kind == "float":
            return struct.unpack(">d", bytes.fromhex(said))[0]
        if kind == "scalar":
            dtype, text = said
            return np.frombuffer(bytes.fromhex(text), _check_dtype(dtype)).reshape(())[()]  # one number, no more
        if kind == "dict":
            return self._decode_members(said)
        if kind == "array":
            return self._decode_array(*said)
        if kind == "named":
            found, members = self._types[said[0]], self._decode_members(said[1])
            absent = found._fields[len(members) :]  # an earlier version did not have the last ones
            if tuple(members) != found._fields[: len(members)] or not found._field_defaults.keys() >= set(absent):
                raise ValueError(f"fields of {said[0]}")
            return found(**members)
        raise ValueError(kind)

    def _decode_members(self, pairs: list[Any]) -> dict[str, Any]:
        found = {key: self.decode(item) for key, item in pairs}
        if len(found) < len(pairs) or not all(type(key) is str for key in found):
            raise ValueError("members")
        return found

    def _decode_array(self, dtype: str, shape: list[int], order: str, start: int) -> Array:
        if order not in ("C", "F") or not all(type(side) is int and side >= 0 for side in (*shape, start)):
            raise ValueError("array")
        key = (dtype, tuple(shape), order, start)
        if key not in self._known:
            kind = np.dtype(_check_dtype(dtype))
            count = math.prod(shape)
            if start + count * kind.itemsize > len(self._data):
                raise ValueError("an array that is longer than the bytes")
            flat: Array = np.frombuffer(self._data, kind, count, start) if count else np.empty(0, kind)
            self._known[key] = flat.reshape(shape, order=order).copy(order="K")  # type: ignore[call-overload]
        return self._known[key]
