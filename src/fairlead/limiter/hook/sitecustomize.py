"""The start of a Python program in a job: install the hook, then be the user's own sitecustomize.

Python 2 reads this file too, therefore it has no syntax of Python 3.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))

if sys.version_info >= (3, 6) and os.environ.get("FAIRLEAD_JOB_ID"):
    try:
        __import__("fairlead_limits").install()
    except Exception:  # noqa: BLE001, S110  # a program never fails because of the hook
        pass

# The program's path is the one that it would have without this folder; its children find it in PYTHONPATH.
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != _FOLDER]
_own = sys.modules.pop("sitecustomize", None)
try:
    __import__("sitecustomize")
except ImportError as _error:
    if getattr(_error, "name", "sitecustomize") != "sitecustomize":
        raise
    if _own is not None:
        sys.modules["sitecustomize"] = _own
