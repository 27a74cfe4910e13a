"""Get the networks and the page of this example: python fetch.py [--packages DIR] [--cache-only].

All come out of the packages that pins.json names, by ../packages.py.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.argv[1:1] = [str(here)]
    runpy.run_path(str(here.parent / "packages.py"), run_name="__main__")
