"""The two jobs: images through a detector, documents into a search index; by themselves."""

import json
import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from fairlead.errors import EmulationError
from fairlead.reproduce.augment import detector, documents, images
from fairlead.reproduce.augment.bare import BareWorker, run_bare, search_service
from fairlead.reproduce.augment.function import DOCUMENTS, IMAGES, MODEL, PACE, SERVICE
from fairlead.reproduce.augment.index import SearchIndex
from fairlead.reproduce.augment.service import SearchService


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with images, batches and the detector."""
    folder = tmp_path_factory.mktemp("augment")
    images.write_images(str(folder / IMAGES), 4)
    documents.write_batches(str(folder / DOCUMENTS), 6, 20)
    detector.write_model(str(folder))
    return folder


def paths(folder: Path, job: str) -> list[str]:
    return [str(path) for path in sorted((folder / job).iterdir())]


def test_images_are_the_same_for_the_same_number_and_have_the_stated_size(made: Path, tmp_path: Path) -> None:
    images.write_images(str(tmp_path), 2)
    for path in sorted(tmp_path.iterdir()):
        assert path.read_bytes() == (made / IMAGES / path.name).read_bytes()
        assert path.stat().st_size == images.image_bytes() == 230_415
    first, second = (images.read_image(path) for path in paths(made, IMAGES)[:2])
    assert first.shape == (240, 320, 3)
    assert not np.array_equal(first, second)


def test_a_network_gets_pixels_between_minus_one_and_one() -> None:
    pixels = np.array([[[0, 255, 0], [255, 0, 0]]], np.uint8)
    tensor = images.as_input(pixels, 4)
    assert tensor.shape == (1, 3, 4, 4)
    assert tensor.dtype == np.float32
    assert tensor[0, :, 0, 0].tolist() == [-1, 1, -1]
    assert tensor[0, :, 3, 3].tolist() == [1, -1, -1]


def test_a_detector_finds_the_best_boxes_first(made: Path) -> None:
    runtime = detector.open_detector(detector.write_model(str(made)))
    found = [json.loads(detector.detect(runtime, path)) for path in paths(made, IMAGES)[:2]]
    assert found[0] != found[1]
    for boxes in found:
        scores = [each["score"] for each in boxes]
        assert len(boxes) == 10
        assert scores == sorted(scores, reverse=True)
        assert all(0 < score < 1 for score in scores)


def test_an_index_finds_what_is_committed(tmp_path: Path) -> None:
    index = SearchIndex(str(tmp_path))
    assert index.add([{"id": 7, "title": "grey whale", "body": "a whale", "length": 2}]) == 1
    assert index.count() == 0
    index.commit()
    assert index.count() == 1
    assert (index.search("whale"), index.search("shark")) == ([7], [])


def test_a_service_answers_when_loads_are_durable(made: Path, tmp_path: Path) -> None:
    with SearchService(str(tmp_path)) as service:
        answers: list[dict[str, int]] = []

        def load(batches: list[str]) -> None:
            for path in batches:
                with urllib.request.urlopen(f"{service.url}/bulk", documents.prepare(path)) as reply:
                    answers.append(json.load(reply))

        loaders = [
            threading.Thread(target=load, args=(paths(made, DOCUMENTS)[first::2],)) for first in (0, 1)
        ]
        for each in loaders:
            each.start()
        for each in loaders:
            each.join()
        with urllib.request.urlopen(service.url) as reply:
            assert json.load(reply) == {"documents": 120}
        assert answers == [{"loaded": 20}] * 6
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{service.url}/bulk", b"not json")
        assert refused.value.code == 400
        refused.value.close()
    assert SearchIndex(str(tmp_path)).count() == 120


def test_workers_side_by_side_do_every_input(made: Path, tmp_path: Path) -> None:
    listed = paths(made, DOCUMENTS)
    with search_service(tmp_path / "service") as found:
        workers = [BareWorker(DOCUMENTS, listed[first::2], found) for first in (0, 1)]
        figures = run_bare(workers, tmp_path)
        with urllib.request.urlopen(found[SERVICE]) as reply:
            assert json.load(reply) == {"documents": 120}
    assert figures.inputs == 6
    assert figures.cpu is not None
    assert 0 < figures.cpu < 2 * figures.seconds
    results = [name for number in (0, 1) for name in os.listdir(tmp_path / f"bare-{number}")]
    assert sorted(name for name in results if name.endswith(".json")) == [
        f"{number:06}.jsonl.json" for number in range(6)
    ]


def test_a_pace_is_the_least_time_of_an_input(made: Path, tmp_path: Path) -> None:
    environ = {MODEL: detector.write_model(str(made)), PACE: "0.3"}
    figures = run_bare([BareWorker(IMAGES, paths(made, IMAGES)[:2], environ)], tmp_path)
    assert figures.seconds >= 0.6
    assert figures.inputs == 2


def test_a_worker_that_ends_says_why(made: Path, tmp_path: Path) -> None:
    worker = BareWorker(IMAGES, paths(made, IMAGES)[:1], {MODEL: str(tmp_path / "none.onnx")})
    with pytest.raises(EmulationError, match=r"a worker ended: .*none\.onnx"):
        run_bare([worker], tmp_path)
