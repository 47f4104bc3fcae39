"""Words that people write where nothing is known."""

MISSING = (
    *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "-nan", "null", "NULL", "None", "none"),
    *("?", "-", ".", "missing"),
)
"""Cells of texts that say that nothing is known."""
