"""Solvers: `init` and `step` over an explicit State; `base.drive` is the only loop."""
