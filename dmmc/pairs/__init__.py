"""Pairs of rows that must or cannot be together."""
