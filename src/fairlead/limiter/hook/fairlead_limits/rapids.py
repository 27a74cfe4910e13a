"""RAPIDS: the pools of RMM, which take half or 80 % of what a GPU has free, stay inside the share.

cudf.pandas sizes its pool by the free memory that RMM reports, so that is never more than the share. A pool
whose size the program states is left alone.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STEP = 256
"""Pools are multiples of this many bytes."""


def limit(rmm: "Any", size: int, _: float) -> None:
    """Limit the free memory that RMM reports, and the pools for which the program states no size."""
    size = max(_STEP, size // _STEP * _STEP)
    resources = rmm.mr
    _limit_free_memory(resources, size)
    for name, sizes in (
        ("PoolMemoryResource", ("initial_pool_size", "maximum_pool_size")),
        ("CudaAsyncMemoryResource", ("initial_pool_size",)),
    ):
        if hasattr(resources, name):
            first = 1 if len(sizes) > 1 else 0  # the first argument of a pool is where it allocates
            setattr(resources, name, _limited_class(getattr(resources, name), first, sizes, size))
    _limit_reinitialize(rmm, size)


def _limit_free_memory(resources: "Any", size: int) -> None:
    original = getattr(resources, "available_device_memory", None)
    if original is None:
        return

    def available_device_memory() -> "Any":
        """Return the free memory, at most that of the job's share, and the total."""
        free, total = original()
        return min(free, size), total

    resources.available_device_memory = available_device_memory


def _limited_class(base: "Any", first: int, sizes: "Any", size: int) -> "Any":
    """Return a class of pools with sizes for those that the caller does not state."""

    class _Meta(type(base)):  # type: ignore[misc]  # the type of an extension type
        def __instancecheck__(cls, instance: "Any") -> bool:
            return isinstance(instance, base)  # RMM makes some pools itself

    def new(cls: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        stated = dict(zip(sizes, args[first:]), **kwargs)
        return base.__new__(cls, *args[:first], **_sizes(stated, sizes, size))

    def init(self: "Any", *args: "Any", **kwargs: "Any") -> None:
        base.__init__(self, *args, **kwargs)

    members = {"__new__": new, "__init__": init, "__doc__": base.__doc__, "__module__": base.__module__}
    return _Meta(base.__name__, (base,), members)


def _limit_reinitialize(rmm: "Any", size: int) -> None:
    original = getattr(rmm, "reinitialize", None)
    if original is None:
        return
    names = ("pool_allocator", "managed_memory", "initial_pool_size", "maximum_pool_size")

    def reinitialize(*args: "Any", **kwargs: "Any") -> "Any":
        stated = dict(zip(names, args), **kwargs)
        if len(args) > len(names) or not stated.get("pool_allocator"):
            return original(*args, **kwargs)
        return original(**_sizes(stated, names[2:], size))

    reinitialize.__doc__ = original.__doc__
    for module in (rmm, getattr(rmm, "rmm", None)):
        if getattr(module, "reinitialize", None) is original:
            setattr(module, "reinitialize", reinitialize)  # noqa: B010  # typed as None too


def _sizes(stated: "Any", names: "Any", size: int) -> "Any":
    """Return the arguments, with half of the share to begin with and all of it at most, if none is stated."""
    if any(stated.get(name) is not None for name in names):
        initial = stated.get("initial_pool_size")
        if "maximum_pool_size" in names and isinstance(initial, int) and initial <= size:
            stated.setdefault("maximum_pool_size", size)
        return stated
    defaults = {"initial_pool_size": size // 2 // _STEP * _STEP, "maximum_pool_size": size}
    return dict(stated, **{name: defaults[name] for name in names})
