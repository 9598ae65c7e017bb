"""`python -m mainstay`."""

from __future__ import annotations

import sys

from mainstay.cli.main import main

if __name__ == "__main__":
    sys.argv[0] = "mainstay"  # the program name in the home's lock file
    sys.exit(main())
