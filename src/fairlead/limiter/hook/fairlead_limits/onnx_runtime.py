"""ONNX Runtime: in each session a limit of the memory arena on a GPU, and the cores of the job.

Both where the program states none. By default a session starts a thread for every core of the machine, and
its threads wait for work in loops: beside other jobs they take the cores that those need.
"""

import functools

from . import version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROVIDERS = ("CUDAExecutionProvider", "ROCMExecutionProvider")
_LIMIT, _STRATEGY = "gpu_mem_limit", "arena_extend_strategy"
_EXACT = "kSameAsRequested"
"""By default an arena doubles, and would be refused with half of its limit in use."""
_SPINNING = ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning")


def limit(onnxruntime: "Any", size: int, _: float) -> None:
    """Add the limit to the options of sessions; versions before 1.8 refuse an option of this name."""
    if version_of(onnxruntime) < (1, 8):
        return
    session = onnxruntime.InferenceSession
    initialize = session.__init__

    @functools.wraps(initialize)
    def init(
        self: "Any",
        path_or_bytes: "Any",
        sess_options: "Any" = None,
        providers: "Any" = None,
        provider_options: "Any" = None,
        **more: "Any",
    ) -> None:
        try:
            providers, provider_options = _limited(providers, provider_options, size)
        except Exception:  # noqa: BLE001, S110  # ONNX Runtime says itself what is wrong with them
            pass
        initialize(self, path_or_bytes, sess_options, providers, provider_options, **more)

    session.__init__ = init


def share_cores(onnxruntime: "Any", cores: int) -> None:
    """Give sessions as many threads as the job states cores; without any, let threads sleep between tasks."""
    session = onnxruntime.InferenceSession
    initialize = session.__init__

    @functools.wraps(initialize)
    def init(
        self: "Any", path_or_bytes: "Any", sess_options: "Any" = None, *more: "Any", **named: "Any"
    ) -> None:
        try:
            sess_options = _with_cores(sess_options or onnxruntime.SessionOptions(), cores)
        except Exception:  # noqa: BLE001, S110  # ONNX Runtime says itself what is wrong with them
            pass
        initialize(self, path_or_bytes, sess_options, *more, **named)

    session.__init__ = init


def _with_cores(options: "Any", cores: int) -> "Any":
    """Return the options of a session: cores that are stated belong to the job, and its threads may spin."""
    if cores:
        if not options.intra_op_num_threads:
            options.intra_op_num_threads = cores
        return options
    for entry in _SPINNING:
        try:
            options.get_session_config_entry(entry)
        except RuntimeError:  # the program does not state it
            options.add_session_config_entry(entry, "0")
    return options


def _limited(providers: "Any", options: "Any", size: int) -> "Any":
    """Return the providers and their options, with the limit for each that runs on a GPU."""
    if not providers:
        return providers, options
    if options:
        pairs = zip(providers, options)
        return providers, [_with_limit(name, given, size) for name, given in pairs]
    limited = []
    for provider in providers:
        name, given = (provider, {}) if isinstance(provider, str) else provider
        limited.append((name, _with_limit(name, given, size)) if name in _PROVIDERS else provider)
    return limited, options


def _with_limit(name: str, given: "Any", size: int) -> "Any":
    if name not in _PROVIDERS or _LIMIT in given:
        return given
    return dict({_LIMIT: str(size), _STRATEGY: _EXACT}, **given)
