"""The import hook of a job: once a framework is imported, the limit of its memory is set, and its threads.

For Python 3.6 and later, in the user's program: nothing heavy is imported, and no error leaves this package.
"""

import os
import sys

TYPE_CHECKING = False  # typing takes milliseconds to import
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_FRAMEWORKS = {
    "torch": "pytorch",
    "tensorflow": "tensor_flow",
    "onnxruntime": "onnx_runtime",
    "rmm": "rapids",
}
"""By the module that programs import, the module here that sets its limit."""
_SPINNING = ("onnxruntime",)
"""Of them, those whose threads no variable limits to the cores of a job, or keeps from waiting in loops."""


class FrameworkFinder:
    """Finds no module itself: it lets the others find a framework, and notes when that has been imported."""

    def __init__(self, size: int, fraction: float, cores: int) -> None:
        """Take the limit of memory, 0 without one, and the cores that the job states; 0: it shares them."""
        self._size = size
        self._fraction = fraction
        self._cores = cores
        self._names = _FRAMEWORKS if size else _SPINNING
        self._busy = set()  # type: set[str]
        self._done = set()  # type: set[str]

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Return the spec of a framework as the other finders return it; None for everything else."""
        if name not in self._names or name in self._busy or name in self._done:
            return None
        self._busy.add(name)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    self._watch(name, getattr(spec, "loader", None))
                    return spec
        finally:
            self._busy.discard(name)
        return None

    def _watch(self, name: str, loader: "Any") -> None:
        """Set the limit after this loader has executed the module; a spec may also be only looked at."""
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: "ModuleType") -> None:
            execute(module)
            if getattr(module, "__name__", "") == name and name not in self._done:
                self._done.add(name)
                self._limit(name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # an extension type: the framework keeps to no limit

    def _limit(self, name: str, module: "ModuleType") -> None:
        try:
            own = __name__ + "." + _FRAMEWORKS[name]
            __import__(own)
            if self._size:
                sys.modules[own].limit(module, self._size, self._fraction)
            if name in _SPINNING:
                sys.modules[own].share_cores(module, self._cores)
        except Exception:  # noqa: BLE001, S110  # a program never fails because of its limit
            pass


def install() -> None:
    """Put the hook in front of the finders."""
    size = _number("FAIRLEAD_ACCELERATOR_ALLOCATOR_BYTES")
    fraction = _number("FAIRLEAD_ACCELERATOR_MEMORY_FRACTION")
    limited = size > 0 and 0 < fraction < 1
    sys.meta_path.insert(
        0, FrameworkFinder(int(size) if limited else 0, fraction, int(_number("FAIRLEAD_CPUS")))
    )


def _number(variable: str) -> float:
    """Return the number in a variable; 0 where there is none."""
    try:
        return max(0.0, float(os.environ.get(variable, "0")))
    except ValueError:
        return 0.0


def version_of(module: "Any") -> "tuple[int, ...]":
    """Return the first two numbers of a module's version; (0, 0) where it has none."""
    numbers = []
    for part in str(getattr(module, "__version__", "")).split(".")[:2]:
        if not part.isdigit():
            return (0, 0)
        numbers.append(int(part))
    return tuple(numbers) if len(numbers) > 1 else (0, 0)
