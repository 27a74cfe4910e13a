"""The hook in real Python programs: frameworks are played by modules with the shape of the real ones."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from fairlead.limiter.hook import FOLDER, python_path
from fairlead.publish.memory_limit import ALLOCATOR_BYTES, MEMORY_FRACTION
from fairlead.zoo import BUILDERS
from fairlead.zoo.onnxfile import write

SIZE, FRACTION = 3 << 30, "0.2100"
LIMIT = {ALLOCATOR_BYTES: str(SIZE), MEMORY_FRACTION: FRACTION, "FAIRLEAD_JOB_ID": "7"}
FILES = sorted(Path(FOLDER).rglob("*.py"))


class Program:
    """A folder with modules, and programs that find them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))

    def run(self, code: str, *options: str, python: str = sys.executable, **variables: str) -> str:
        """Return what a program prints; it must not fail."""
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": python_path(str(self.folder)),
            **LIMIT,
            **variables,
        }
        done = subprocess.run(
            [python, *options, "-c", dedent(code)], env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout.strip()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


TORCH = """
__version__ = "{version}"
from torch import cuda
"""
CUDA = """
limits, _queued_calls, _initialized = {}, [], False
def device_count():
    return 2
def is_initialized():
    return _initialized
def _lazy_call(callable, **kwargs):
    callable() if _initialized else _queued_calls.append((callable, []))
def _lazy_init():
    global _initialized
    if not _initialized:
        _initialized = True
        for call, _ in _queued_calls:
            call()
def set_per_process_memory_fraction(fraction, device=None):
    _lazy_init()
    assert isinstance(fraction, float)
    limits[device] = fraction
"""


def torch(program: Program, version: str) -> None:
    program.module("torch/__init__.py", TORCH.format(version=version))
    program.module("torch/cuda.py", CUDA)


@pytest.mark.parametrize(
    ("version", "variables", "limits"),
    [
        ("2.9.1+cu128", {}, "{0: 0.21, 1: 0.21}"),
        ("1.13.0", {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.2100"}, "{0: 0.21, 1: 0.21}"),
        ("2.11.0", {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.2100"}, "{}"),
        ("2.11.0", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "{0: 0.21, 1: 0.21}"),
    ],
)
def test_pytorch_gets_its_limit_when_cuda_is_initialised(
    program: Program, version: str, variables: dict[str, str], limits: str
) -> None:
    torch(program, version)
    code = """
        import torch
        assert not torch.cuda.is_initialized() and not torch.cuda.limits
        torch.cuda._lazy_init()
        print(torch.cuda.limits)
    """
    assert program.run(code, **variables) == limits


def test_a_limit_that_the_program_sets_itself_stays(program: Program) -> None:
    torch(program, "2.4.0")
    code = "import torch; torch.cuda.set_per_process_memory_fraction(0.05, 0); print(torch.cuda.limits)"
    assert program.run(code) == "{0: 0.05, 1: 0.21}"


def test_a_spec_that_is_only_looked_at_uses_nothing_up(program: Program) -> None:
    torch(program, "2.4.0")
    code = """
        import importlib.util
        assert importlib.util.find_spec("torch").loader.name == "torch"
        assert importlib.util.find_spec("tensorflow") is None
        import torch
        torch.cuda._lazy_init()
        print(torch.cuda.limits)
    """
    assert program.run(code) == "{0: 0.21, 1: 0.21}"


def test_an_older_pytorch_without_limits_still_imports(program: Program) -> None:
    program.module("torch/__init__.py", "__version__ = '1.4.0'\nfrom torch import cuda\n")
    program.module("torch/cuda.py", "")
    assert program.run("import torch; print(torch.__version__)") == "1.4.0"


CONTEXT = """
import collections
LogicalDeviceConfiguration = collections.namedtuple("LogicalDeviceConfiguration", "memory_limit")
class Context:
    def __init__(self):
        self._initialized = False
        self._virtual, self._growth = {}, {}
    def list_physical_devices(self, kind):
        return ["gpu:0", "gpu:1"] if kind == "GPU" else ["cpu:0"]
    def get_logical_device_configuration(self, dev):
        return self._virtual.get(dev)
    def set_logical_device_configuration(self, dev, parts):
        if self._initialized:
            raise RuntimeError("Virtual devices cannot be modified after being initialized")
        self._virtual[dev] = parts
    def set_memory_growth(self, dev, enable):
        if dev in self._virtual:
            raise ValueError("Cannot set memory growth on device when virtual devices configured")
        self._growth[dev] = enable
    def ensure_initialized(self):
        self._initialized = True
context = Context()
"""


def tensorflow(program: Program) -> None:
    for package in ("tensorflow/python", "tensorflow/python/eager"):
        program.module(f"{package}/__init__.py", "")
    program.module("tensorflow/__init__.py", "from tensorflow.python.eager.context import context\n")
    program.module("tensorflow/python/eager/context.py", CONTEXT)


def test_tensorflow_gets_logical_devices_with_a_limit(program: Program) -> None:
    tensorflow(program)
    code = """
        import tensorflow as tf
        tf.context.set_memory_growth("gpu:0", True)
        tf.context.set_logical_device_configuration("gpu:1", ["its own"])
        for _ in range(2):
            tf.context.ensure_initialized()
        print(tf.context._virtual["gpu:0"][0].memory_limit, tf.context._virtual["gpu:1"])
    """
    assert program.run(code) == f"{SIZE >> 20} ['its own']"


SESSION = """
__version__ = "{version}"
class InferenceSession:
    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        self.made = (path_or_bytes, providers, provider_options, kwargs)
"""
ORT = {"gpu_mem_limit": str(SIZE), "arena_extend_strategy": "kSameAsRequested"}
GPU, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ("'m'", ("m", None, None, {})),
        (f"'m', providers=['{GPU}', '{CPU}']", ("m", [(GPU, ORT), CPU], None, {})),
        (
            f"'m', None, [('{GPU}', {{'device_id': 1}})], enable_x=1",
            ("m", [(GPU, {**ORT, "device_id": 1})], None, {"enable_x": 1}),
        ),
        (f"'m', None, ['{GPU}', '{CPU}'], [{{}}, {{}}]", ("m", [GPU, CPU], [ORT, {}], {})),
        (f"'m', None, [('{GPU}', {{'gpu_mem_limit': 7}})]", ("m", [(GPU, {"gpu_mem_limit": 7})], None, {})),
        (f"'m', None, ['{CPU}']", ("m", [CPU], None, {})),
        ("'m', None, 7", ("m", 7, None, {})),  # what is wrong with it, ONNX Runtime says
    ],
)
def test_onnx_runtime_gets_a_limit_of_its_arena(program: Program, arguments: str, made: object) -> None:
    program.module("onnxruntime/__init__.py", SESSION.format(version="1.31.1"))
    printed = program.run(f"import onnxruntime as ort; print(ort.InferenceSession({arguments}).made)")
    assert ast.literal_eval(printed) == made


def test_an_older_onnx_runtime_gets_no_option_that_it_refuses(program: Program) -> None:
    program.module("onnxruntime/__init__.py", SESSION.format(version="1.6.0"))
    code = f"import onnxruntime as ort; print(ort.InferenceSession('m', None, ['{GPU}']).made)"
    assert ast.literal_eval(program.run(code)) == ("m", [GPU], None, {})


def test_the_real_onnx_runtime_reads_its_arguments_as_before(program: Program) -> None:
    pytest.importorskip("onnxruntime")
    code = f"""
        import onnxruntime as ort
        try:
            ort.InferenceSession(b"no model", providers=["{CPU}"])
        except Exception as error:
            print(type(error).__name__, ort.InferenceSession.__init__.__wrapped__ is not None)
    """
    assert program.run(code) == "InvalidProtobuf True"


ORT_CORES = """
    import onnxruntime as ort
    spinning = "session.intra_op.allow_spinning"
    options = ort.SessionOptions()
    {statement}
    session = ort.InferenceSession({path!r}, options, ["CPUExecutionProvider"])
    try:
        spins = session.get_session_options().get_session_config_entry(spinning)
    except RuntimeError:
        spins = "as it is"
    print(session.get_session_options().intra_op_num_threads, spins)
"""


@pytest.mark.parametrize(
    ("statement", "variables", "printed"),
    [
        ("options = None", {}, "0 0"),
        ("pass", {ALLOCATOR_BYTES: "0"}, "0 0"),  # without a limit of memory
        ("pass", {"FAIRLEAD_CPUS": "2"}, "2 as it is"),
        ("options.intra_op_num_threads = 3", {"FAIRLEAD_CPUS": "2"}, "3 as it is"),
        ("options.intra_op_num_threads = 3", {}, "3 0"),
        ("options.add_session_config_entry(spinning, '1')", {}, "0 1"),
        ("pass", {"FAIRLEAD_CPUS": "many"}, "0 0"),
        ("pass", {"FAIRLEAD_JOB_ID": ""}, "0 as it is"),
    ],
)
def test_sessions_of_onnx_runtime_keep_to_the_cores_of_their_job(
    program: Program, statement: str, variables: dict[str, str], printed: str
) -> None:
    pytest.importorskip("onnxruntime")
    path = program.folder / "thread.onnx"
    write(BUILDERS["thread"](1, "fp32"), str(path))
    assert program.run(ORT_CORES.format(statement=statement, path=str(path)), **variables) == printed


MEMORY_RESOURCES = """
class DeviceMemoryResource:
    def __new__(cls, *args, **kwargs):
        made = object.__new__(cls)
        made.sizes = kwargs
        return made
class CudaMemoryResource(DeviceMemoryResource):
    pass
class PoolMemoryResource(DeviceMemoryResource):
    def __new__(cls, upstream_mr, initial_pool_size=None, maximum_pool_size=None):
        return super().__new__(cls, initial_pool_size=initial_pool_size, maximum_pool_size=maximum_pool_size)
    def __init__(self, upstream_mr, initial_pool_size=None, maximum_pool_size=None):
        pass
class CudaAsyncMemoryResource(DeviceMemoryResource):
    def __new__(cls, initial_pool_size=None, release_threshold=None):
        return super().__new__(cls, initial_pool_size=initial_pool_size, release_threshold=release_threshold)
    def __init__(self, initial_pool_size=None, release_threshold=None):
        pass
own_pool = PoolMemoryResource
def available_device_memory():
    return (70 << 30, 80 << 30)
"""
HALF = SIZE // 2


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("rmm.mr.available_device_memory()", (SIZE, 80 << 30)),
        ("rmm.mr.PoolMemoryResource(up).sizes", {"initial_pool_size": HALF, "maximum_pool_size": SIZE}),
        (
            "rmm.mr.PoolMemoryResource(up, initial_pool_size=256).sizes",
            {"initial_pool_size": 256, "maximum_pool_size": SIZE},
        ),
        (
            "rmm.mr.PoolMemoryResource(up, 9 << 30).sizes",
            {"initial_pool_size": 9 << 30, "maximum_pool_size": None},
        ),
        (
            "rmm.mr.CudaAsyncMemoryResource(release_threshold=7).sizes",
            {"initial_pool_size": HALF, "release_threshold": 7},
        ),
        ("isinstance(rmm.mr.PoolMemoryResource(up), rmm.mr.PoolMemoryResource)", True),
        ("isinstance(rmm.mr.own_pool(up), rmm.mr.PoolMemoryResource)", True),
        ("isinstance(up, rmm.mr.PoolMemoryResource)", False),
        ("rmm.mr.PoolMemoryResource.__name__", "PoolMemoryResource"),
        ("rmm.reinitialize()", {}),
        (
            "rmm.reinitialize(True)",
            {"pool_allocator": True, "initial_pool_size": HALF, "maximum_pool_size": SIZE},
        ),
        (
            "rmm.reinitialize(pool_allocator=True, maximum_pool_size=7)",
            {"pool_allocator": True, "maximum_pool_size": 7},
        ),
    ],
)
def test_the_pools_of_rapids_stay_inside_the_share(program: Program, code: str, printed: object) -> None:
    program.module("rmm/__init__.py", "from rmm import mr\nfrom rmm.rmm import reinitialize\n")
    program.module("rmm/rmm.py", "def reinitialize(*args, **kwargs):\n    return kwargs\n")
    program.module("rmm/mr.py", MEMORY_RESOURCES)
    text = program.run(f"import rmm.mr; up = rmm.mr.CudaMemoryResource(); print(repr({code}))")
    assert ast.literal_eval(text) == printed


def test_a_framework_of_another_shape_is_left_alone(program: Program) -> None:
    for name in ("torch", "tensorflow", "onnxruntime", "rmm"):
        program.module(f"{name}.py", "__version__ = '99.0'\n")
    assert program.run("import torch, tensorflow, onnxruntime, rmm; print(rmm.__version__)") == "99.0"


def test_an_import_that_fails_fails_as_before(program: Program) -> None:
    program.module("torch.py", "raise ImportError('libcudart.so is missing')\n")
    code = """
        for name in ("torch", "torch", "onnxruntime_x"):
            try:
                __import__(name)
            except ImportError as error:
                print(error)
    """
    assert program.run(code).splitlines() == [
        *["libcudart.so is missing"] * 2,
        "No module named 'onnxruntime_x'",
    ]


def test_the_users_own_sitecustomize_runs_and_the_path_is_the_users(program: Program) -> None:
    program.module("sitecustomize.py", "MARK = 'the user own'\n")
    code = f"import sys, sitecustomize; print(sitecustomize.MARK, {FOLDER!r} in sys.path)"
    assert program.run(code) == "the user own False"
    without = "import sys; print(" + repr(FOLDER) + " in sys.path)"
    (program.folder / "sitecustomize.py").unlink()
    assert program.run(without) == "False"


def test_children_of_a_program_are_limited_too(program: Program) -> None:
    torch(program, "2.4.0")
    code = """
        import subprocess, sys
        child = "import torch; torch.cuda._lazy_init(); print(torch.cuda.limits)"
        print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout.strip())
    """
    assert program.run(code) == "{0: 0.21, 1: 0.21}"


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-s", "-O"])
def test_pythons_own_options_go_on_working(program: Program, option: str) -> None:
    assert program.run("import json; print(json.dumps(7))", option) == "7"


def test_outside_of_a_job_nothing_is_installed(program: Program) -> None:
    code = "import sys; print([type(each).__name__ for each in sys.meta_path].count('FrameworkFinder'))"
    assert program.run(code) == "1"
    assert program.run(code, FAIRLEAD_JOB_ID="") == "0"


@pytest.mark.parametrize(
    "variables", [{ALLOCATOR_BYTES: ""}, {ALLOCATOR_BYTES: "much"}, {MEMORY_FRACTION: "7"}]
)
def test_without_a_limit_no_memory_is_limited(program: Program, variables: dict[str, str]) -> None:
    torch(program, "2.4.0")
    assert program.run("import torch; torch.cuda._lazy_init(); print(torch.cuda.limits)", **variables) == "{}"


def test_the_path_gets_the_hook_once_and_no_empty_entry() -> None:
    assert python_path("") == FOLDER
    assert python_path("/a:/b") == f"{FOLDER}:/a:/b"
    assert python_path(python_path("/a")) == python_path("/a")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_the_hook_has_the_syntax_of_old_pythons(path: Path) -> None:
    if path == Path(FOLDER, "__init__.py"):
        return  # fairlead's own
    ast.parse(path.read_text(), feature_version=(3, 6))


def test_the_hook_imports_nothing_that_python_has_not_imported_itself(program: Program) -> None:
    code = "import sys; print(sorted(sys.modules))"
    with_hook = set(ast.literal_eval(program.run(code)))
    without = set(ast.literal_eval(program.run(code, PYTHONPATH=str(program.folder))))
    assert with_hook - without == {"fairlead_limits", "sitecustomize"}
