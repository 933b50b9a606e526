from __future__ import annotations

from dataclasses import replace

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bert_tf.data.schema import MLM_LOGITS
from bert_tf.reports.training import write_report
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.evaluation.baselines import EvaluationContext
from bert_tf.training.evaluation.mask_samples import GUESSES, fill_masks, in_markdown
from bert_tf.training.fit import fit, weights_sha256
from bert_tf.training.run_spec import EvaluationSpec, RunSpec, TrainingData
from tests.support.training.tiny_run import CONFIG, PREDICTIONS, VOCABULARY, batch, build_model, dataset


def vocabulary():
    return Vocabulary((*SPECIAL_TOKENS, *(f"w{number}" for number in range(VOCABULARY - len(SPECIAL_TOKENS)))))


def train(output, evaluation_context):
    config = replace(CONFIG, evaluate_every=6, average=0.9)
    data = TrainingData(lambda start: dataset(8, start), lambda _: dataset(8, 10_000, 10_003))
    run = RunSpec(build_model, data, evaluation=EvaluationSpec(context=evaluation_context), on_report=write_report)
    return fit(run, config, output)


def test_every_evaluation_shows_the_same_examples_without_changing_the_run(tmp_path):
    asked = []

    def examples(step):
        asked.append(step)
        return batch(10_000, 2)

    plain = train(tmp_path / "plain", None)
    shown = train(tmp_path / "shown", EvaluationContext(vocabulary(), lambda step, stop: {}, ({}, ""), 0, examples))
    assert weights_sha256(shown.model) == weights_sha256(plain.model)
    assert shown.evaluation == plain.evaluation
    assert asked == [5, 11]
    events = EventAccumulator(str(tmp_path / "shown/tensorboard/validation")).Reload()
    texts = events.Tensors("filled_masks")
    assert [event.step for event in texts] == [6, 12]
    # The texts are predictions of the evaluated weights, which are the moving averages of the result.
    expected = fill_masks(shown.model, batch(10_000, 2), vocabulary())
    assert texts[-1].tensor_proto.string_val[0].decode() == "\n\n---\n\n".join(map(in_markdown, expected))
    used = int((batch(10_000, 2)[2][MLM_LOGITS] > 0).sum())
    assert 0 < used <= 2 * PREDICTIONS
    assert (tmp_path / "shown/report.html").read_text().count("<tr>") == used + 2
    assert all(len(filling.guesses) == GUESSES for example in expected for filling in example.fillings)
