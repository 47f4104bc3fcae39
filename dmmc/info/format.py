"""`format_info`: what `info` found, as lines for people."""

from typing import Any


def format_info(found: dict[str, Any]) -> str:
    """Lines for people of what `info` found."""
    lines = [str(found["name"])]

    def add(label: str, text: str) -> None:
        lines.append(f"  {label:15s} {text}")

    kind = found["kind"] or "unknown"
    add("kind", kind if found["zarr_format"] is None else f"{kind} (zarr version {found['zarr_format']})")
    if found["shape"] is not None:
        sizes = " x ".join(f"{size:,}" for size in found["shape"])
        add("shape", f"{sizes} ({'rows x features' if len(found['shape']) == 2 else 'not rows x features'})")
        add("dtype", found["dtype"])
    if found["chunks"] is not None:
        shards = "" if found["shards"] is None else f" in shards of {_join_sizes(found['shards'])}"
        what = "values" if found["sparse"] else "numbers"
        add("chunks", f"{found['n_chunks']:,} of {_join_sizes(found['chunks'])} {what}{shards}")
    if found["nnz"] is not None:
        add("stored values", f"{found['nnz']:,} (density {100 * (found['density'] or 0):.3g} %)")
    if found["image_shape"] is not None:
        add("images", _join_sizes(found["image_shape"]))
    if found["feature_names"] is not None:
        add("feature names", "yes" if found["feature_names"] else "no")
        add("row ids", "yes" if found["row_ids"] else "no")
    if found["disk_bytes"] is not None:
        add("on disk", _format_bytes(found["disk_bytes"]))
    if found["memory_bytes"] is not None:
        add("in memory", _format_bytes(found["memory_bytes"]))
    for method, needed in (found["fit_bytes"] or {}).items():
        add(f"fit, {method}", f"about {_format_bytes(needed)} for {found['n_clusters']} clusters, all included")
    if found["problems"]:
        lines.append("  problems")
        lines += [f"    - {sentence}" for sentence in found["problems"]]
    else:
        read = "all numbers were read" if found["checked"] else "numbers were not read, ask for a check to do so"
        add("problems", f"none found ({read})")
    return "\n".join(lines)


def _join_sizes(sizes: list[int]) -> str:
    return " x ".join(str(size) for size in sizes)


def _format_bytes(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes} bytes"
