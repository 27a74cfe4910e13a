"""TensorFlow: a logical device with a memory limit on each GPU that the program has not configured itself.

It is set at the last moment, when the devices are initialised: a program that asks for memory growth, or for
its own logical devices, could not do so any more after an earlier configuration.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CONTEXT = "tensorflow.python.eager.context"


def limit(_tensorflow: "Any", size: int, _: float) -> None:
    """Configure the GPUs before the eager context is initialised."""
    module = sys.modules[_CONTEXT]  # type: Any
    context = module.Context
    initialize = context.ensure_initialized
    mebibytes = max(1, size >> 20)

    def ensure_initialized(self: "Any") -> "Any":
        """Initialize handle and devices if not already done so."""
        if not self._initialized:
            try:
                for gpu in self.list_physical_devices("GPU"):
                    if not self.get_logical_device_configuration(gpu):
                        part = module.LogicalDeviceConfiguration(memory_limit=mebibytes)
                        self.set_logical_device_configuration(gpu, [part])
            except Exception:  # noqa: BLE001, S110  # a program never fails because of its limit
                pass
        return initialize(self)

    context.ensure_initialized = ensure_initialized
