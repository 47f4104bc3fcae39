"""Pieces of HTML that several sections are made of. What they are given is escaped already, or our own."""

from __future__ import annotations

from dmmc.report import text


def swatch(colour: str) -> str:
    """The colour of a cluster."""
    return f'<i class="swatch" style="background:{colour}"></i>'


def head(*names: str) -> str:
    """The first line of a table."""
    cells = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def scroll(name: str, content: str, more: str = "") -> str:
    """Content that scrolls when it is long, also by keyboard."""
    return f'<div class="scroll {more}" role="region" aria-label="{text.attribute(name)}" tabindex="0">{content}</div>'


def plot(name: str, told: str) -> str:
    """Where the script draws a plot, and what is told to those who cannot see it."""
    return f'<div class="plot" id="{name}" role="img" aria-label="{text.attribute(told)}"></div>'


def section(name: str, title: str, note: str, content: str) -> str:
    """One section of the page."""
    told = f'<p class="note">{note}</p>' if note else ""
    return f'<section id="{name}"><h2>{title}</h2>{told}{content}</section>'
