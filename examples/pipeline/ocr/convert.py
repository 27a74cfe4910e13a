"""Write the characters that a recogniser knows, one a line: python convert.py recognise.onnx characters.txt.

PP-OCR's recognisers carry them in their metadata.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fairlead import ort
from fairlead.errors import FairleadError, UserError

KEY: Final = "character"
"""The name in the metadata."""


def characters(path: Path) -> str:
    """Return the characters of a recogniser; UserError if it carries none."""
    runtime = ort.module("convert.py", "install it: pip install 'fairlead[onnx]'")
    metadata = ort.open_session(runtime, str(path), 1, ("cpu",), optimize=False).get_modelmeta()
    found: str = metadata.custom_metadata_map.get(KEY, "")
    if not found:
        raise UserError(f"{path}: the metadata has no {KEY!r}", "take a recogniser of PP-OCR")
    return found.removesuffix("\n") + "\n"


def main(words: Sequence[str]) -> int:
    """Write the characters; return the exit code."""
    try:
        source, target = map(Path, words)
    except ValueError:
        sys.stderr.write("usage: python convert.py recognise.onnx characters.txt\n")
        return 2
    try:
        target.write_text(characters(source), encoding="utf-8")
    except FairleadError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
