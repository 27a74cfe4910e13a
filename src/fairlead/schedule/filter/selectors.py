"""Evaluate the device selectors of claims on kinds of accelerator, each pair once."""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairlead.cel import CelDevice

_LONGEST: Final = 120
"""Characters of a selector in a sentence."""


@lru_cache(maxsize=1 << 16)
def first_mismatch(selectors: tuple[str, ...], offered: str) -> tuple[str, str]:
    """Return the first selector that does not match and its error; both empty: all match.

    As in kube-scheduler, evaluation stops at the first selector that does not match: none after it can fail.
    """
    # Imported here: requests without selectors do not need the evaluator.
    from fairlead.cel import CompileError, EvaluationError, compile_selector  # noqa: PLC0415

    for text in selectors:
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        if not offered:
            return shown, ""
        try:
            if not compile_selector(text).matches(_device(offered)):
                return shown, ""
        except (CompileError, EvaluationError) as error:
            return shown, str(error)
    return "", ""


@lru_cache(maxsize=4096)
def _device(offered: str) -> "CelDevice":
    from fairlead.cel import CelDevice  # noqa: PLC0415

    document = json.loads(offered)
    return CelDevice.of(document["driver"], document["device"])
