"""Rows drawn as small PNG images."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from dmmc.array_types import Array

LARGEST_SIDE = 96
SMALLEST_SIDE = 8


def is_image(shape: tuple[int, ...], width: int) -> bool:
    """Whether rows of `width` numbers are images of this shape, grey or RGB."""
    if len(shape) not in (2, 3) or min(shape) < 1:
        return False
    return math.prod(shape) == width and (len(shape) == 2 or shape[2] in (1, 3))


def make_data_uris(rows: Sequence[Array], shape: tuple[int, ...], budget: int) -> list[str]:
    """The rows as PNG images in data URIs, on one common scale of brightness.

    They are made smaller until all of them together have at most `budget` characters.
    """
    pixels = _scale_to_bytes(np.asarray(rows, dtype=np.float64)).reshape(len(rows), *shape)
    side = min(LARGEST_SIDE, max(shape[:2]))
    while True:
        encoded = [base64.b64encode(encode_png(shrink(image, side))).decode("ascii") for image in pixels]
        if sum(map(len, encoded)) <= budget or side <= SMALLEST_SIDE:
            return [f"data:image/png;base64,{text}" for text in encoded]
        side = side * 2 // 3


def shrink(image: Array, side: int) -> Array:
    """The image with no side above `side`: means over square tiles."""
    factor = -(-max(image.shape[:2]) // side)
    if factor <= 1:
        return image
    sums = image.astype(np.float64)
    sizes: list[Array] = []
    for axis in (0, 1):
        starts = np.arange(0, image.shape[axis], factor)
        sums = np.add.reduceat(sums, starts, axis=axis)
        sizes.append(np.diff(np.append(starts, image.shape[axis])))
    area = np.multiply.outer(*sizes)
    return np.rint(sums / (area if image.ndim == 2 else area[..., None])).astype(np.uint8)


def encode_png(image: Array) -> bytes:
    """A uint8 array (height, width) or (height, width, 1 or 3) as a PNG file."""
    height, width = image.shape[:2]
    colour = 2 if image.ndim == 3 and image.shape[2] == 3 else 0
    lines = np.ascontiguousarray(image, dtype=np.uint8).reshape(height, -1)
    unfiltered = np.insert(lines, 0, 0, axis=1)  # each line starts with the number of its filter: none
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(unfiltered.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_make_chunk(kind, data) for kind, data in chunks)


def _make_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _scale_to_bytes(values: Array) -> Array:
    """Values as 0..255 from the least to the largest of them all; what is not a number is black."""
    known = np.isfinite(values)
    if not known.any():
        return np.zeros(values.shape, np.uint8)
    low, high = values[known].min(), values[known].max()
    with np.errstate(over="ignore"):
        spread = high - low
    if not 0 < spread < np.inf:
        return np.zeros(values.shape, np.uint8)
    scaled = (np.where(known, values, low) - low) / spread
    levels: Array = np.rint(255 * scaled).astype(np.uint8)
    return levels
