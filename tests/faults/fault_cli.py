"""`dmmc`, but with small blocks, a checkpoint after each pass, and time after each pass for a test to interfere."""

import faulthandler
import os
import signal
import sys
import time

import numpy as np

from dmmc.app import cli, progress
from dmmc.data import blocks
from dmmc.results import checkpoints

shown = progress.Progress.__call__


def slowly(self, event):
    shown(self, event)
    if "iteration" in event:
        time.sleep(float(os.environ.get("PAUSE", "0")))


def main(arguments):
    faulthandler.register(signal.SIGUSR1)  # says where each thread is
    blocks.ONE_BLOCK, blocks.FOUR_BLOCKS = 16 * 1024, 32 * 1024
    checkpoints.EVERY, checkpoints.SHARE = 0.0, np.inf
    progress.Progress.__call__ = slowly
    progress.EVERY_LINE = float(os.environ.get("EVERY_LINE", progress.EVERY_LINE))
    cli.main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
