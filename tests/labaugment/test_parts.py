"""What is decided about the image job in pods without a lab: the Python that pods get, and their objects."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import fairlead
from fairlead.augmentobjects.certificates import fingerprint
from fairlead.augmentobjects.controller import AugmentationController
from fairlead.augmentobjects.from_spec import resource_of
from fairlead.compat.times import UTC
from fairlead.invite import Invite, mint_invite, verify_invite
from fairlead.labaugment.host import HostPython, mapped_folders, outermost, this_python
from fairlead.labaugment.objects import (
    augmentation_objects,
    bare_pod,
    invite_key,
    new_resource,
    store_fingerprint,
    volume,
)
from fairlead.ownedobjects.certificates import NoIssuer
from fairlead.reconcile import Observed

PYTHON = HostPython("/opt/py/bin/python", ("/opt/py", "/usr"), {"PATH": "/usr/bin"})
RESOURCE = new_resource(300, {"FAIRLEAD_DETECTOR": "/in/a.onnx"}, "device")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MAPS = """\
5600-5700 r--p 00000000 fe:00 131 /opt/py/bin/python3.11
7f00-7f10 r-xp 00028000 fe:00 132 /nix/store/x y/lib/libc.so.6
7f10-7f20 r--p 00000000 fe:00 133 /usr/lib/locale/C.utf8/LC_CTYPE
7f20-7f30 rw-p 00000000 00:00 0
7f30-7f40 rw-p 00000000 00:00 0 [heap]
7f40-7f50 r-xp 00000000 fe:00 134 /opt/py/lib/numpy/_core.cpython-311-x86_64-linux-gnu.so
"""


def objects(inputs: list[str]) -> list[dict[str, Any]]:
    return augmentation_objects(RESOURCE, PYTHON, inputs, NoIssuer(), NOW)


def pods(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["spec"] for each in items if each["kind"] == "Pod"}


def test_a_folder_is_mounted_once_and_the_whole_machine_never() -> None:
    paths = ["/usr/lib", "/usr", "/opt/py/", "/opt/python", "/", "/opt/py/lib/python3.11"]
    assert outermost(paths) == ("/opt/py", "/opt/python", "/usr")


def test_the_folders_of_loaded_libraries_are_read_from_the_map_of_a_process() -> None:
    assert mapped_folders(MAPS) == ["/nix/store/x y/lib", "/opt/py/lib/numpy"]


def test_the_python_of_this_machine_has_its_program_and_its_packages() -> None:
    found = this_python()
    places = [Path(each) for each in found.places]
    for needed in (sys.executable, sys.base_prefix, fairlead.__path__[0], "/usr/bin/env"):
        assert any(Path(needed).is_relative_to(place) for place in places), (needed, places)
    assert found.program == sys.executable


def test_the_pod_of_the_bare_command_is_confined_without_a_limit() -> None:
    spec = bare_pod(PYTHON, ["/in/images", "/in/a.onnx"], "/out", 0)["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsNonRoot"]) == (0, False)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "resources" not in container
    assert "command" not in container, "the image waits"
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert mounts == {"/out": False, **dict.fromkeys(("/opt/py", "/usr", "/in/images", "/in/a.onnx"), True)}
    folders = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"]}
    assert {each["name"]: each["mountPath"] for each in container["volumeMounts"]} == folders


def test_pods_of_the_session_are_what_the_controller_makes_with_another_program() -> None:
    observed = Observed(resource_of(RESOURCE), {}, {}, NOW)
    decided = AugmentationController(NoIssuer(), RESOURCE.image, is_shown=True).reconcile(observed)
    made, wanted = objects(["/in/a.onnx"]), [dict(each) for each in decided.objects]
    kinds = ["PersistentVolumeClaim", "ConfigMap", "Service", "NetworkPolicy"]
    for kind in kinds:
        assert [each for each in made if each["kind"] == kind] == [
            each for each in wanted if each["kind"] == kind
        ]
    assert {*pods(made)} == {"kraf-store", "kraf-application"}
    for name, spec in pods(made).items():
        theirs = pods(wanted)[name]
        different = {key for key in spec if spec[key] != theirs[key]}
        assert different == {"initContainers", "containers", "volumes"}
        for key in ("initContainers", "containers"):
            for mine, other in zip(spec[key], theirs[key], strict=True):
                changed = {each for each in mine if mine[each] != other.get(each)}
                assert changed == {"command", "env", "volumeMounts"}
                assert mine["env"][: len(other.get("env", []))] == other.get("env", [])
                assert mine["volumeMounts"][: len(other["volumeMounts"])] == other["volumeMounts"]


def test_the_containers_of_the_session_run_this_python() -> None:
    spec = pods(objects([]))
    (application,), (store,) = (spec[name]["containers"] for name in ("kraf-application", "kraf-store"))
    (folders,) = spec["kraf-store"]["initContainers"]
    assert application["command"] == ["/opt/py/bin/python", "-m", "fairlead", "augment", "work"]
    assert store["command"][:5] == ["/opt/py/bin/python", "-m", "fairlead", "serve", "store"]
    assert folders["command"][:2] == ["/opt/py/bin/python", "-c"]
    environ = {each["name"]: each["value"] for each in application["env"]}
    assert environ["FAIRLEAD_DETECTOR"] == "/in/a.onnx"
    assert environ["FAIRLEAD_STORE"] == "https://kraf-store.kraf.svc:8443"
    assert environ["PATH"] == "/usr/bin"


def test_the_claim_of_the_session_finds_its_volume() -> None:
    offered = volume(RESOURCE, Path("/lab/volume"))["spec"]
    (claim,) = (each for each in objects([]) if each["kind"] == "PersistentVolumeClaim")
    assert offered["claimRef"] == {key: claim["metadata"][key] for key in ("namespace", "name")}
    assert offered["storageClassName"] == claim["spec"]["storageClassName"]
    assert offered["accessModes"] == claim["spec"]["accessModes"]
    assert (offered["capacity"]["storage"], claim["spec"]["resources"]["requests"]["storage"]) == (
        str(300 << 20),
        "300Mi",
    )


def test_an_invite_is_signed_with_the_key_that_the_store_has() -> None:
    made = objects([])
    token = mint_invite(invite_key(made, RESOURCE), 2e9, "device")
    assert isinstance(verify_invite(invite_key(made, RESOURCE), token, 1e9), Invite)
    assert store_fingerprint(made, RESOURCE) == fingerprint(b"") == "", (
        "an issuer without keys issues nothing"
    )
