"""`python die_with_parent.py PROGRAM ...`: executes a program that ends when its parent process ends.

A killed driver cannot stop its job server; on Linux the kernel stops it instead.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Requests the parent-death signal and executes the program of the command line."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit("the parent has ended already")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
