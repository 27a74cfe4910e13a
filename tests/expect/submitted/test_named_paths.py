"""Which model files a container names."""

from typing import Any

import pytest

from fairlead.expect.submitted.named_paths import ImageConfig, named_models
from fairlead.manifest.types.program import ProgramContainer
from tests.expect.submitted.worlds import pod


def container(**fields: Any) -> ProgramContainer:
    return pod(fields).spec.containers[0]


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"args": ["--model", "/m/a.onnx"]}, ["/m/a.onnx"]),
        ({"args": ["--model=/m/a.onnx"]}, ["/m/a.onnx"]),
        ({"args": ["--models=a:/m/a.tflite,b:/m/b.ONNX"]}, ["/m/a.tflite", "/m/b.ONNX"]),
        ({"command": ["sh", "-c", "run '/m/a b.onnx' && serve /m/a.onnx>log"]}, ["/b.onnx", "/m/a.onnx"]),
        ({"args": ["a.onnx"], "workingDir": "/srv"}, ["/srv/a.onnx"]),
        ({"args": ["../x/./a.onnx"], "workingDir": "/srv"}, ["/x/a.onnx"]),
        ({"args": ["../../../a.onnx"]}, ["/a.onnx"]),
        ({"args": ["a.onnx.bak", "onnx", ".onnxrc", "a.onnx/b", "a.onnx.data"]}, []),
        ({"args": ["file:///m/a.onnx", "https://h/a.onnx"]}, ["/m/a.onnx", "https://h/a.onnx"]),
        ({"env": [{"name": "MODEL", "value": "/m/a.onnx"}]}, ["/m/a.onnx"]),
        (
            {
                "env": [{"name": "D", "value": "/m"}, {"name": "E", "value": "$(D)/v1"}],
                "args": ["$(E)/a.onnx", "${D}/b.onnx", "$D/c.onnx", "$(F)/d.onnx"],
            },
            ["/m/v1/a.onnx", "/m/b.onnx", "/m/c.onnx"],
        ),
        ({"args": ["/m/a.onnx"] * 3}, ["/m/a.onnx"]),
    ],
)
def test_paths(fields: dict[str, Any], paths: list[str]) -> None:
    found = named_models(container(**fields))
    assert [path for path in found if "$" not in path and path != "/d.onnx"] == paths


def test_the_image_says_what_the_container_leaves_out() -> None:
    config = ImageConfig(("serve", "a.onnx"), ("b.onnx",), "/app", {"M": "c.onnx"})
    assert named_models(container(), config) == ["/app/a.onnx", "/app/b.onnx", "/app/c.onnx"]
    assert named_models(container(args=["d.onnx"]), config)[:2] == ["/app/a.onnx", "/app/d.onnx"]
    assert named_models(container(command=["x"]), config) == ["/app/c.onnx"], "no arguments of the image"
