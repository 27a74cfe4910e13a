"""Models that a cluster knows: found by name, and foreseen as from their file."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from fairlead.analyze import analyze
from fairlead.catalog import Catalog
from fairlead.errors import ManifestError
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import target
from fairlead.expect.profiles import KnownModels
from fairlead.modelprofiles.analysed import analysed_profile
from fairlead.modelprofiles.convert import calibration_profiles, observed_profile
from fairlead.modelprofiles.types import ModelProfile
from fairlead.units import Seconds
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.profiles import LATENCY, MADE, calibration, observed

DEVICES = ("coral-usb", "jetson-tx2", "t4", "l4", "no-such")


def brought(folder: Path, model: str, name: str, precision: str = "fp32") -> ModelProfile:
    write(KNOWN[model](1, precision), str(folder / name))
    return analysed_profile(analyze(str(folder / name)), MADE, "n")


def named(models: KnownModels, name: str, precision: str = "") -> str:
    return models.find("here", name, precision).digest


def test_a_model_is_foreseen_as_from_its_file(catalog: Catalog, tmp_path: Path) -> None:
    models = KnownModels.of([brought(tmp_path, "mobilenet_v1", "m.onnx")], catalog)
    found = models.expectations(models.find("here", "m", ""), "", DEVICES)
    question = Query.of(analyze(str(tmp_path / "m.onnx")))
    for each in estimate(question, [target(name, catalog) for name in DEVICES[:-1]], Knowledge()):
        assert found[each.device].seconds == each.p90
        assert found[each.device].joules == each.joules
    assert found.keys() == set(DEVICES[:-1])


def test_a_precision_that_is_asked_for_counts(catalog: Catalog, tmp_path: Path) -> None:
    models = KnownModels.of([brought(tmp_path, "mobilenet_v1", "m.onnx")], catalog)
    found = models.expectations(models.find("here", "m", "fp16"), "fp16", DEVICES)
    assert "int8" in found["coral-usb"].reason
    assert not found["t4"].reason


def test_what_was_measured_counts_for_more_than_data_sheets(catalog: Catalog) -> None:
    models = KnownModels.of(calibration_profiles(calibration(), "n"), catalog)
    found = models.expectations(models.find("here", "plain", ""), "", DEVICES)
    assert found["l4"].seconds == pytest.approx(0.02), "what nine of ten runs took at most"
    assert found.keys() == set(DEVICES[:-1]), "and elsewhere it is predicted"


def test_a_model_that_was_only_seen_is_expected_where_it_was_seen(catalog: Catalog) -> None:
    richer = replace(LATENCY, p90=Seconds(0.03), count=99)
    sights = [
        observed_profile(observed(), "n"),
        observed_profile(observed(host="another", latency=richer), "n"),
    ]
    models = KnownModels.of(sights, catalog)
    (found,) = models.expectations(models.find("here", "detector", ""), "", DEVICES).items()
    assert found[0] == "l4"
    assert (found[1].seconds, found[1].memory) == (0.03, 2_000)
    assert found[1].joules == pytest.approx(30.0 * 0.011)


def test_names_by_which_a_model_is_known(catalog: Catalog) -> None:
    models = KnownModels.of(
        [*calibration_profiles(calibration(), "n"), observed_profile(observed(), "n")], catalog
    )
    for name in ("detector.onnx", "detector", "models/Detector.onnx", "c" * 8, "C" * 40):
        assert named(models, name)[0] == "c"
    for name in ("c" * 7, "detect", ""):
        with pytest.raises(ManifestError):
            named(models, name)


def test_an_unknown_name_is_told_what_to_do_and_names_no_model_of_others(catalog: Catalog) -> None:
    models = KnownModels.of(
        [*calibration_profiles(calibration(), "n"), observed_profile(observed(), "n")], catalog
    )
    for name in ("detektor", "zebra"):
        with pytest.raises(ManifestError, match=f"the cluster knows no model '{name}'") as caught:
            named(models, name)
        assert not told(caught.value) & {"detector", "plain", "points"}
        assert "fairlead profiles import --model" in caught.value.hint
        assert "kubectl get modelprofiles" in caught.value.hint


def told(error: ManifestError) -> set[str]:
    """Return the words that a pod's condition would carry."""
    return set(re.findall(r"[a-z0-9]+", f"{error} {error.hint}"))


def test_a_name_of_two_models_must_be_narrowed(catalog: Catalog, tmp_path: Path) -> None:
    both = [brought(tmp_path, "resnet18", f"r-{each}.onnx", each) for each in ("fp32", "fp16")]
    alike = [structs.replace(each, spec=structs.replace(each.spec, model="r.onnx")) for each in both]
    models = KnownModels.of(alike, catalog)
    with pytest.raises(ManifestError, match="may be any of 2 models") as caught:
        named(models, "r")
    assert "fairlead.dev/precision" in caught.value.hint
    assert not any(word in digest for digest in models.known for word in told(caught.value) if len(word) > 7)
    assert named(models, "r", "fp16") != named(models, "r", "fp32")
