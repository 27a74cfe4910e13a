"""`python -m fairlead.executors SPEC`: a warm process; started by a worker, never by people.

It reads a line of JSON for each input and answers with one. What the user's code prints goes to the standard
error, which is the worker's log.
"""

import json
import os
import sys
import traceback
from collections.abc import Mapping
from typing import IO, Any

from fairlead.errors import FairleadError
from fairlead.executors.calls import Call, function_call, model_call


def main() -> int:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        call = _load(json.loads(sys.argv[1]))
    except (FairleadError, ValueError) as error:
        hint = getattr(error, "hint", "")
        _answer(answers, {"error": f"{error}{f': {hint}' if hint else ''}"})
        return 1
    _answer(answers, {"ready": True})
    for line in sys.stdin:
        _answer(answers, _run(call, json.loads(line)))
    return 0


def _load(spec: Mapping[str, Any]) -> Call:
    if spec["kind"] == "model":
        return model_call(spec["target"], spec["options"])
    return function_call(spec["target"], spec["folder"])


def _run(call: Call, order: Mapping[str, str]) -> dict[str, Any]:
    try:
        call(order["input"], order["output"])
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        traceback.print_exc()
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())}
    return {"done": True}


def _answer(answers: IO[str], document: Mapping[str, Any]) -> None:
    answers.write(f"{json.dumps(document)}\n")
    answers.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
