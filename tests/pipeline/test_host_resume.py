"""A run over hosts goes on after its coordinator was killed."""

from pathlib import Path

from tests.pipeline.hosts import start_host
from tests.pipeline.pipelines import lines
from tests.pipeline.resumed import (
    FRAMES,
    GATES,
    LAST,
    counted,
    expected,
    finish,
    kept_start,
    kill_when,
    start_run,
)


def test_a_run_with_a_sink_on_another_host_goes_on(tmp_path: Path) -> None:
    """The host goes on with a killed run for its grace: its processes end before the next ones write."""
    file = tmp_path / "p.yaml"
    child, port = start_host(tmp_path)
    with child:
        hosts = f'hosts: {{edge: {{address: "127.0.0.1:{port}"}}}}\n'
        file.write_text(counted(tmp_path, on="edge") + hosts)
        try:
            assert kill_when(start_run(file, "--insecure"), lambda: kept_start(tmp_path) == LAST[100])
            for gate in GATES:
                (tmp_path / str(gate)).touch()
            finish(start_run(file, "--insecure", "--resume"))
        finally:
            child.terminate()
        assert child.stderr is not None
        begun = [line for line in child.stderr.read().splitlines() if line.endswith(": begins")]
    assert len(begun) == 2
    assert len(set(begun)) == 1, "by its name the host knows the run, and ends what it has of it"
    assert [line["sequence"] for line in lines(tmp_path)] == [*range(FRAMES)]
    assert [line["value"] for line in lines(tmp_path)] == expected()
