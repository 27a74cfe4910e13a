"""The program of the pods that copy a volume."""

import sys

from fairlead.store.copying.program import main

sys.exit(main(sys.argv[1:]))
