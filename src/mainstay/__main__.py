"""`python -m mainstay`."""

from __future__ import annotations

import sys

from mainstay.app.cli import main

if __name__ == "__main__":
    sys.argv[0] = "mainstay"  # what the home's lock tells others
    sys.exit(main())
