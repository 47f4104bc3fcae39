"""The tables and figures of the five papers, made again: one module a paper, and what they share."""
