"""MNIST from its idx files to a report: convert, fit, score, report.

    python examples/mnist_from_idx.py train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz -k 10 -o mnist-result

Without files it makes small idx files from scikit-learn's digits, so that it can be tried anywhere.
"""

import argparse
import gzip
import struct
import tempfile
from pathlib import Path

import numpy as np

import dmmc
from dmmc.convert import convert


def small_idx_files(folder: Path) -> tuple[Path, Path]:
    """Digits as idx files, in the format of MNIST's."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images * 15).astype(np.uint8)
    paths = folder / "images-idx3-ubyte.gz", folder / "labels-idx1-ubyte.gz"
    for path, values in zip(paths, (images, digits.target.astype(np.uint8)), strict=True):
        header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
        path.write_bytes(gzip.compress(header + values.tobytes()))
    return paths


def labels_from_idx(path: Path) -> np.ndarray:
    """Labels follow a header of eight bytes."""
    data = path.read_bytes()
    return np.frombuffer(gzip.decompress(data) if path.suffix == ".gz" else data, np.uint8, offset=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", nargs="?", type=Path)
    parser.add_argument("labels", nargs="?", type=Path)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("-o", "--out", type=Path, default=Path("mnist-result"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        images, truth = (arguments.images, arguments.labels) if arguments.images else small_idx_files(folder)
        store = folder / "images.zarr"
        done = convert(images, store)
        print(f"{done['rows']} images of {done['columns']} pixels")
        run = dmmc.fit(store, n_clusters=arguments.k, out=arguments.out)
        print(run)
        if truth is not None:
            found = dmmc.score(run.labels, labels_from_idx(truth))
            print(f"accuracy {found['accuracy']:.3f}, NMI {found['nmi']:.3f} (labels were used for this line only)")
        print(f"see {arguments.out / 'report.html'}")


if __name__ == "__main__":
    main()
