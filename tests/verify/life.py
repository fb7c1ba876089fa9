"""A program with lives: `python -m tests.verify.life LIFE [STATUS] PARENT`; ends so, or waits for a signal."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    sys.stdout.write(f"life {sys.argv[1]}\n")
    sys.stdout.flush()
    if len(sys.argv) > 3:
        return int(sys.argv[2])
    signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
