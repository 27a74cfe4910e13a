"""The program of the pods that copy a volume."""

import sys

from fairlead.store.copying.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
