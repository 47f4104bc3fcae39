"""To be imported first: the dmmc of this checkout, which its fault tests run in their processes, and their tools."""

import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPO), str(REPO / "tests" / "tools"), str(REPO / "tests" / "faults")]
