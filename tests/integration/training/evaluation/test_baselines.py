from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bert_tf.data.schema import MLM_LOGITS, NSP_LOGITS
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.evaluation.baselines import EvaluationContext, chance_figures
from bert_tf.training.fit import fit
from bert_tf.training.losses import PRETRAINING
from bert_tf.training.run_spec import EvaluationSpec, RunSpec, TrainingData
from tests.support.training.tiny_run import CONFIG, batch, build_model, dataset

PUBLISHED = {"mlm_loss": math.log(5.84), "mlm_perplexity": 5.84, "nsp_accuracy": 0.97}


def oracle(batches):
    """Computes the metrics of the best constant guess target by target."""
    found = {}
    for prefix, output in (("mlm", MLM_LOGITS), ("nsp", NSP_LOGITS)):
        targets = [
            target
            for _, values, weights in batches
            for target, weight in zip(values[output].flat, weights[output].flat, strict=True)
            if weight
        ]
        counts = Counter(targets)
        found[f"{prefix}_loss"] = sum(-math.log(counts[target] / len(targets)) for target in targets) / len(targets)
        found[f"{prefix}_accuracy"] = counts.most_common(1)[0][1] / len(targets)
    found["mlm_perplexity"] = math.exp(found["mlm_loss"])
    return found | {"loss": found["mlm_loss"] + found["nsp_loss"]}


def evaluation_context():
    pieces = (*SPECIAL_TOKENS, *(f"w{number}" for number in range(45)))
    held_out = [batch(step, 8) for step in range(10_000, 10_003)]
    return EvaluationContext(
        Vocabulary(pieces), lambda step, stop: chance_figures(held_out, PRETRAINING), (PUBLISHED, "a paper"), 3
    )


def train(output, config, at_step=None):
    data = TrainingData(lambda start: dataset(8, start, at_step=at_step), lambda _: dataset(8, 10_000, 10_003))
    run = RunSpec(build_model, data, evaluation=EvaluationSpec(context=evaluation_context()))
    return fit(run, config, output)


def lines(output):
    records = map(json.loads, (output / "history.jsonl").read_text().splitlines())
    return [record for record in records if record["split"] == "validation"]


def test_new_and_resumed_runs_report_baselines(tmp_path, capfd):
    config = replace(CONFIG, evaluate_every=6)
    result = train(tmp_path / "run", config)
    shown = capfd.readouterr().err
    first, last = lines(tmp_path / "run")
    chance = oracle([batch(step, 8) for step in range(10_000, 10_003)])
    assert first["chance"] == last["chance"] == pytest.approx(chance)
    assert first["published"] == PUBLISHED
    assert not set(result.evaluation) & {"chance", "published", "remarks"}
    assert f"(chance {chance['mlm_perplexity']:.4f}, published 5.8400)" in shown
    assert shown.count("a paper") == 1
    for folder, source in (("chance", chance), ("published", PUBLISHED)):
        curve = EventAccumulator(str(tmp_path / "run/tensorboard" / folder)).Reload()
        points = [(event.step, event.value) for event in curve.Scalars("mlm_loss")]
        assert points == [(step, pytest.approx(source["mlm_loss"])) for step in (6, 12)]

    class StoppedError(Exception):
        pass

    def stop(step, made):
        if step == 8:
            raise StoppedError
        return made

    with pytest.raises(Exception, match="StoppedError"):
        train(tmp_path / "resumed", config, stop)
    train(tmp_path / "resumed", config)
    assert lines(tmp_path / "resumed") == [first, last]
