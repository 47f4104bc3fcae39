"""Who takes part in `peers.py`: dmmc and what people use instead, each as a function from rows to labels.

A contender is a function `(X, k, seed) -> labels`; what starts a cluster or a JVM is a context that yields such a
function, so that starting is in nobody's time. Labels of an HDBSCAN are -1 where it calls a row noise.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Fit = Callable[[Any, int, int], Any]
WORKERS = 2
SMALLEST = 10
"""Rows of an HDBSCAN's cluster at least, in thousandths of all rows."""


class NotFeasible(Exception):  # noqa: N818
    """A peer that cannot take this set, with the reason."""


def dmmc_fit(method: str, X: Any, k: int, seed: int, **options: Any) -> Any:
    import dmmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dmmc.fit(X, k, method=method, random_state=seed, **options).labels


def sklearn_fit(name: str, X: Any, k: int, seed: int) -> Any:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    kind = {"KMeans": KMeans, "MiniBatchKMeans": MiniBatchKMeans}[name]
    return kind(k, n_init=1, random_state=seed).fit(floats(X)).labels_


def hdbscan(X: Any, k: int, seed: int) -> Any:
    from sklearn.cluster import HDBSCAN

    refuse(X, 20_000, "all pairs of rows")
    return HDBSCAN(min_cluster_size=smallest(X), copy=False).fit(floats(X)).labels_


def spectral(X: Any, k: int, seed: int) -> Any:
    from sklearn.cluster import SpectralClustering

    refuse(X, 20_000, "a graph and an eigenproblem for minutes")
    return SpectralClustering(k, affinity="nearest_neighbors", n_jobs=-1, random_state=seed).fit(floats(X)).labels_


def faiss_kmeans(X: Any, k: int, seed: int, niter: int = 25) -> Any:
    import faiss

    rows = dense(X)
    kmeans = faiss.Kmeans(rows.shape[1], k, niter=niter, seed=seed, max_points_per_centroid=len(rows))
    kmeans.train(rows)
    return kmeans.index.search(rows, 1)[1][:, 0]


def umap_hdbscan(X: Any, k: int, seed: int) -> Any:
    import umap
    from sklearn.cluster import HDBSCAN

    placed = umap.UMAP(n_components=5, min_dist=0.0, n_neighbors=30, random_state=seed, n_jobs=1).fit_transform(X)
    return HDBSCAN(min_cluster_size=smallest(X), copy=False).fit(placed).labels_


def evoc(X: Any, k: int, seed: int) -> Any:
    import evoc as package

    return package.EVoC(approx_n_clusters=k, random_state=seed).fit_predict(dense(X))


def fast_hdbscan(X: Any, k: int, seed: int) -> Any:
    import fast_hdbscan as package
    from sklearn.decomposition import TruncatedSVD

    rows = X if X.shape[1] <= 20 else TruncatedSVD(20, random_state=seed).fit_transform(X)
    return package.HDBSCAN(min_cluster_size=smallest(X)).fit_predict(np.ascontiguousarray(rows, np.float32))


def linear_svc(y: Any, X: Any, k: int, seed: int) -> Any:
    """Not a peer: what a linear model reaches that is told the classes."""
    from sklearn.svm import LinearSVC

    _, numbers = np.unique(y, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LinearSVC(random_state=seed, max_iter=200).fit(floats(X), numbers).predict(floats(X))


@contextmanager
def on_two_workers(who: str) -> Iterator[Fit]:
    """dmmc or dask-ml on the same kind of local cluster, from a zarr store of the rows."""
    from _cluster import local_client

    with local_client(WORKERS) as client, tempfile.TemporaryDirectory() as folder:

        def fit(X: Any, k: int, seed: int) -> Any:
            path = store(Path(folder), X)
            if who == "dmmc":
                return dmmc_fit("cpmmc", str(path), k, seed, scheduler=client)
            import dask.array
            from dask_ml.cluster import KMeans
            from distributed import wait

            rows = dask.array.from_zarr(str(path))
            rows = rows.rechunk((-(-len(rows) // (2 * WORKERS)), -1)).astype(np.float32).persist()
            wait(rows)
            return KMeans(n_clusters=k, random_state=seed).fit(rows).labels_.compute()

        yield fit


@contextmanager
def on_spark() -> Iterator[Fit]:
    """Spark MLlib's KMeans on local[2], from a parquet file of the rows."""
    from pyspark.ml.clustering import KMeans
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{WORKERS}]").config("spark.driver.memory", "8g")
    spark = builder.config("spark.ui.enabled", "false").config("spark.driver.maxResultSize", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:

        def fit(X: Any, k: int, seed: int) -> Any:
            path = Path(folder) / f"{len(X)}.parquet"
            if not path.exists():
                write_parquet(path, X)
            rows = spark.read.parquet(str(path))
            rows = rows.select("number", array_to_vector("row").alias("features")).cache()
            model = KMeans(k=k, seed=seed).fit(rows)
            found = model.transform(rows).select("number", "prediction").toPandas()
            return found.sort_values("number")["prediction"].to_numpy()

        yield fit
    spark.stop()


def store(folder: Path, X: Any) -> Path:
    """A zarr store of dense rows, written once; writing is before the time that counts, as the first fit is."""
    import zarr

    path = folder / f"{len(X)}.zarr"
    if not path.exists():
        rows = dense(X, X.dtype)
        each = max(1, 8 * 2**20 // (rows.shape[1] * rows.itemsize))
        zarr.create_array(path, shape=rows.shape, chunks=(each, rows.shape[1]), dtype=rows.dtype)[:] = rows
    return path


def write_parquet(path: Path, X: Any) -> None:
    """Rows as a column of lists, numbered."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = dense(X)
    lists = pa.ListArray.from_arrays(np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32), rows.ravel())
    parquet.write_table(pa.table({"number": np.arange(len(rows)), "row": lists}), path, row_group_size=10_000)


def dense(X: Any, dtype: Any = np.float32) -> Any:
    """Dense rows; refused where they would not fit."""
    if not isinstance(X, np.ndarray):
        size = X.shape[0] * X.shape[1] * 4
        if size > 4e9:
            raise NotFeasible(f"takes dense rows only, which would be {size / 1e9:.0f} GB")
        X = X.toarray()
    return np.ascontiguousarray(X, dtype)


def floats(X: Any) -> Any:
    """float32, dense or CSR."""
    return X.astype(np.float32)


def smallest(X: Any) -> int:
    """`min_cluster_size` of all HDBSCANs."""
    return max(5, X.shape[0] * SMALLEST // 1000)


def refuse(X: Any, most: int, why: str) -> None:
    """Refuse sets that would take hours."""
    if X.shape[0] > most:
        raise NotFeasible(f"{X.shape[0]:,} rows: {why}")


CONTENDERS: dict[str, Callable[[], Any]] = {
    "dmmc auto, fast": partial(nullcontext, partial(dmmc_fit, "auto", effort="fast")),
    "dmmc auto, balanced": partial(nullcontext, partial(dmmc_fit, "auto")),
    "dmmc cpmmc": partial(nullcontext, partial(dmmc_fit, "cpmmc")),
    "dmmc lsmmc": partial(nullcontext, partial(dmmc_fit, "lsmmc")),
    "dmmc lsmmc, no graph": partial(nullcontext, partial(dmmc_fit, "lsmmc", init="k-means", features="raw")),
    "dmmc cpmmc, 2 workers": partial(on_two_workers, "dmmc"),
    "dask-ml KMeans, 2 workers": partial(on_two_workers, "dask-ml"),
    "Spark KMeans, local[2]": on_spark,
    "KMeans": partial(nullcontext, partial(sklearn_fit, "KMeans")),
    "MiniBatchKMeans": partial(nullcontext, partial(sklearn_fit, "MiniBatchKMeans")),
    "faiss Kmeans": partial(nullcontext, faiss_kmeans),
    "HDBSCAN": partial(nullcontext, hdbscan),
    "SpectralClustering": partial(nullcontext, spectral),
    "umap + HDBSCAN": partial(nullcontext, umap_hdbscan),
    "evoc": partial(nullcontext, evoc),
    "fast_hdbscan": partial(nullcontext, fast_hdbscan),
}
"""By name: makes a context of `(X, k, seed) -> labels`. "LinearSVC, told the classes" is added by `peers.py`."""
