"""Training steps in a table: expected from their amounts, and no hidden value reaches the expectation."""

from pathlib import Path

import numpy as np
import pytest

from fairlead.catalog import Catalog
from fairlead.evaluate.rows import TRAIN, read, records
from fairlead.evaluate.run import EvaluationPlan, evaluate, load

HEAD = (
    "source,device,precision,batch,model,input_size,gmacs,mparams,mactivations,latency_ms,throughput_fps,"
    "runtime,mode"
)


def table(folder: Path, *, factor: float = 1.0, mode: str = TRAIN) -> str:
    """Write steps of 24 models whose times follow their amounts."""
    random = np.random.default_rng(3)
    lines = [HEAD]
    for index in range(24):
        macs, batch = float(np.exp(random.uniform(-0.5, 3))), 64
        activations, params = 4 * macs**0.7, 10 * macs**0.5
        seconds = factor * 1e-3 * (0.3 + 0.3 * macs + 0.06 * activations)
        lines.append(
            f"timm,RTX 3090,amp,{batch},net{index}_x,224,{macs:.3f},{params:.3f},{activations:.3f},"
            f"{seconds * batch * 1e3:.4f},{1 / seconds:.4f},pytorch-nchw,{mode}"
        )
    path = folder / f"steps{factor}{mode}.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_mode_is_read(tmp_path: Path) -> None:
    path = table(tmp_path)
    rows = read(*records(path), path).rows
    assert {row.mode for row in rows} == {TRAIN}
    other = table(tmp_path, mode="infer")
    assert {row.mode for row in read(*records(other), other).rows} == {"batched"}


def test_steps_are_predicted_from_amounts_and_runs(tmp_path: Path, catalog: Catalog) -> None:
    document = evaluate(EvaluationPlan(table(tmp_path), "new-device", 10, 0), catalog)
    [group] = document["groups"]
    assert group["methods"]["fairlead"]["mape"] < 30
    assert group["methods"]["fairlead"]["spearman"] > 0.95


def test_the_expectation_holds_no_measured_value(tmp_path: Path, catalog: Catalog) -> None:
    [one], [two] = (load(table(tmp_path, factor=factor), catalog) for factor in (1.0, 7.0))
    for before, after in zip(one.steps, two.steps, strict=True):
        assert before is not None
        assert after is not None
        assert before.logs == pytest.approx(after.logs, abs=0)
    assert load(table(tmp_path, mode="infer"), catalog)[0].steps == (None,)
