"""Fine-tuning from files to a preset, predictions and metrics: best epoch, frozen layers, resumed runs."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.cli import main
from bert_tf.config import BertConfig, ConfigError, TrainingConfig
from bert_tf.models import BertBackbone, load_preset, save_preset
from bert_tf.tasks.classify.task import ClassifyTask
from bert_tf.tasks.entry import TaskFiles
from bert_tf.tasks.finetune.init import FinetuneInit
from bert_tf.tasks.finetune.run import finetune_task
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.predictor import TaskPredictor
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

FRUITS, METALS = ["apple", "pear", "plum", "cherry"], ["iron", "zinc", "gold", "copper"]
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *FRUITS, *METALS))
SIZE = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 24}
CONFIG = TrainingConfig(learning_rate=5e-3, batch_size=8, epochs=4, warmup_steps=2)


def write_rows(path: Path, count: int, seed: int) -> Path:
    chooser = random.Random(seed)
    lines = ["label\ttext"]
    for _ in range(count):
        label, words = chooser.choice((("fruit", FRUITS), ("metal", METALS)))
        lines.append(f"{label}\t{' '.join(chooser.choices(words, k=chooser.randint(1, 12)))}")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    config = BertConfig(vocabulary_size=len(VOCABULARY), initializer_range=0.3, **SIZE)
    keras.utils.set_random_seed(5)
    save_preset(BertBackbone(config), folder / "encoder", VOCABULARY, True)
    for name, count, seed in (("train", 128, 1), ("dev", 24, 2), ("other", 16, 3)):
        write_rows(folder / f"{name}.tsv", count, seed)
    return folder


def sources(home: Path, **more: object) -> TaskFiles:
    # Paths are strings here, and of type Path elsewhere.
    return TaskFiles(str(home / "train.tsv"), str(home / "dev.tsv"), **more)


@pytest.fixture(scope="module")
def run(home: Path) -> Path:
    files = sources(home, further={"other": str(home / "other.tsv")})
    result = finetune_task(ClassifyTask(), files, FinetuneInit(str(home / "encoder")), CONFIG, str(home / "run"))
    assert result.metrics["accuracy"] == 1.0
    return home / "run"


@pytest.mark.smoke
def test_preset_predicts_a_file_of_its_task(home: Path, run: Path, tmp_path: Path) -> None:
    predictor = TaskPredictor(str(run))
    assert isinstance(predictor.task, ClassifyTask)
    assert predictor.predict_file(str(home / "dev.tsv"), str(tmp_path / "answers.jsonl"), InputErrors()) == 24


@pytest.mark.parametrize("as_path", [str, Path])
def test_preset_without_a_task_cannot_predict(home: Path, as_path: type) -> None:
    with pytest.raises(ValueError, match="must be a preset of a task, .* Run `bert-tf finetune TASK --preset"):
        TaskPredictor(as_path(home / "encoder"))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"task": "sequence_classification"}, "the task must be one of .*`bert-tf convert` with `--task TASK`"),
        ({"task": ["classify"]}, "the task must be one of"),
        ({"task": "classify", "max_sequence_length": "24"}, "`max_sequence_length` must be an integer"),
        ({"task": "classify", "colour": 1}, "does not describe the task `classify`"),
    ],
)
def test_invalid_task_json_is_refused(task: dict[str, object], message: str, home: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(home / "encoder", tmp_path / "preset")
    (directory / "task.json").write_text(json.dumps(task))
    with pytest.raises(ValueError, match=f"task.json: .*{message}"):
        TaskPredictor(str(directory))


def test_run_writes_preset_predictions_and_metrics(home: Path, run: Path) -> None:
    summary = json.loads((run / "result.json").read_text("utf-8"))
    assert set(summary["metrics"]) == {
        f"{name}{file}" for name in ("accuracy", "macro_f1", "majority") for file in ("", "_other")
    }
    assert (summary["dev_examples"], summary["remark"], summary["skipped"]) == (24, "", 0)
    rows = [json.loads(line) for line in (run / "dev/predictions.jsonl").read_text("utf-8").splitlines()]
    gold = [line.split("\t") for line in (home / "dev.tsv").read_text("utf-8").splitlines()[1:]]
    assert [row["text"] for row in rows] == [text for _, text in gold]
    assert [row["label"] for row in rows] == [label for label, _ in gold]
    preset = load_preset(run)
    assert preset.task["labels"] == ["fruit", "metal"]
    assert preset.info["step"] == 64
    # What the model card of an export and the page of the server show.
    assert preset.info["example"]["text"] == gold[0][1]
    assert preset.info["data_name"].endswith("/train.tsv") and preset.info["train_examples"] > 0


def test_finished_run_returns_its_result(home: Path, run: Path) -> None:
    before = (run / "result.json").read_text("utf-8")
    files = sources(home, further={"other": home / "other.tsv"})
    finetune_task(ClassifyTask(), files, FinetuneInit(home / "encoder"), CONFIG, run)
    now = json.loads((run / "result.json").read_text("utf-8"))
    assert now | {"seconds": 0} == json.loads(before) | {"seconds": 0}
    with pytest.raises(ConfigError, match="another `frozen_layers`"):
        finetune_task(ClassifyTask(), files, FinetuneInit(home / "encoder", frozen_layers=0), CONFIG, run)


def test_predict_equals_the_predictions_of_the_run(home: Path, run: Path, tmp_path: Path) -> None:
    """Predicts with a saved preset, in batches of another size, for a file without labels."""
    texts = [line.split("\t")[1] for line in (home / "dev.tsv").read_text("utf-8").splitlines()[1:]]
    (tmp_path / "texts.tsv").write_text("\n".join(["text", *texts]) + "\n", "utf-8")
    output = tmp_path / "predictions.jsonl"
    assert main(["predict", "--preset", str(run), "--input", str(tmp_path / "texts.tsv"), "--output", str(output)]) == 0
    mine, theirs = (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in (output, run / "dev/predictions.jsonl")
    )
    assert [row["label"] for row in mine] == [row["label"] for row in theirs]
    probabilities = [[row["probabilities"]["fruit"] for row in rows] for rows in (mine, theirs)]
    np.testing.assert_allclose(*probabilities, atol=1e-5)


def test_predictions_can_be_scored(home: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["score", "classify", "--data", home / "dev.tsv", "--predictions", run / "dev/predictions.jsonl"]
    assert main([str(argument) for argument in arguments]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["metrics"]["accuracy"] == 1.0


def test_invalid_rows_are_refused_or_skipped_and_listed(home: Path, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text("text\tx\napple\t1\n \t2\nzinc\npear\t3\n", "utf-8")
    with pytest.raises(ValueError, match=r"bad.tsv: line 3: `text` is empty"):
        TaskPredictor(run).predict_file(path, tmp_path / "out.jsonl", InputErrors())
    assert not (tmp_path / "out.jsonl").exists()
    input_errors = InputErrors(skip=True)
    assert TaskPredictor(run).predict_file(path, tmp_path / "out.jsonl", input_errors) == 2
    assert [problem.place.rsplit(" ", 1)[1] for problem in input_errors.problems] == ["3", "4"]
    assert len((tmp_path / "out.jsonl").read_text("utf-8").splitlines()) == 2


def test_invalid_training_rows_are_skipped_and_listed(home: Path, tmp_path: Path) -> None:
    lines = (home / "train.tsv").read_text("utf-8").splitlines()
    (tmp_path / "train.tsv").write_text("\n".join([*lines, "fruit", "metal\t "]) + "\n", "utf-8")
    files = TaskFiles(tmp_path / "train.tsv", home / "dev.tsv")
    config = replace(CONFIG, epochs=1)
    with pytest.raises(ValueError, match=r"train.tsv: line 130: expected 2 columns. Received: 1"):
        finetune_task(ClassifyTask(), files, FinetuneInit(home / "encoder"), config, tmp_path / "run", InputErrors())
    finetune_task(
        ClassifyTask(), files, FinetuneInit(home / "encoder"), config, tmp_path / "run", InputErrors(skip=True)
    )
    listed = (tmp_path / "run/skipped.tsv").read_text("utf-8").splitlines()
    assert [line.split("\t")[0].rsplit(" ", 1)[1] for line in listed] == ["130", "131"]
    assert json.loads((tmp_path / "run/result.json").read_text("utf-8"))["skipped"] == 2


def test_several_workers_are_refused(home: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, strategy="multi_worker")
    with pytest.raises(ConfigError, match="`training.strategy` must be none or mirrored. Received: multi_worker"):
        finetune_task(ClassifyTask(), sources(home), FinetuneInit(home / "encoder"), config, tmp_path)


@pytest.mark.parametrize(("layers", "frozen"), [(0, ["embeddings"]), (1, ["embeddings", "layer_1"])])
def test_frozen_layers_do_not_change(home: Path, tmp_path: Path, layers: int, frozen: list[str]) -> None:
    start = FinetuneInit(home / "encoder", frozen_layers=layers)
    config = replace(CONFIG, epochs=1)
    finetune_task(ClassifyTask(), sources(home), start, config, tmp_path / "run")
    before, after = (
        {weight.path: np.asarray(weight) for weight in model.weights}
        for model in (load_preset(home / "encoder").model, load_preset(tmp_path / "run").model.backbone)
    )
    kept = {path for path, value in before.items() if np.array_equal(value, after[path])}
    assert kept == {path for path in before if path.split("/")[0] in frozen}


def test_freezing_more_layers_than_the_encoder_has_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`frozen_layers` must be from 0 to the model's 2 layers. Received: 3"):
        finetune_task(ClassifyTask(), sources(home), FinetuneInit(home / "encoder", frozen_layers=3), CONFIG, tmp_path)


class Scripted(ClassifyTask):
    """A task with scripted metrics, one for each call of `score`."""

    metrics: list[float]

    def score(self, examples, answers):
        return {"accuracy": self.metrics.pop(0) if self.metrics else 0.0}


def test_early_stopping_keeps_the_best_epoch(home: Path, tmp_path: Path) -> None:
    task = Scripted()
    Scripted.metrics = [0.2, 0.6, 0.5, 0.4]
    config = replace(CONFIG, epochs=6, patience=2)
    result = finetune_task(task, sources(home), FinetuneInit(home / "encoder"), config, tmp_path / "run")
    assert result.step == 64
    assert load_preset(tmp_path / "run").info["step"] == 32


@pytest.mark.slow
def test_training_on_augmentation_comes_first_and_its_head_is_kept(home: Path, tmp_path: Path) -> None:
    files = sources(home, augment=(home / "other.tsv",))
    config = replace(CONFIG, epochs=1, learning_rate=1e-9)
    finetune_task(ClassifyTask(), files, FinetuneInit(home / "encoder"), config, tmp_path / "run")
    first, then = (load_preset(path).model for path in (tmp_path / "run/augment", tmp_path / "run"))
    for one, other in zip(first.weights, then.weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(("settings", "rate"), [((), 6e-4), (("training.learning_rate=2e-4",), 2e-4)])
def test_the_rate_follows_the_width_unless_it_is_given(
    settings: tuple[str, ...], rate: float, home: Path, tmp_path: Path
) -> None:
    """Both doors have the same default."""
    argv = ["finetune", "classify", "--preset", home / "encoder", "--train", home / "train.tsv", "--dev",
            home / "dev.tsv", "--output", tmp_path / "run", "--set", "training.epochs=1", *settings]  # fmt: skip
    assert main(list(map(str, argv))) == 0
    checkpoint = next((tmp_path / "run" / "checkpoints").glob("*/state.json"))
    assert json.loads(checkpoint.read_text())["run"]["training.learning_rate"] == rate
    if not settings:
        model = bert_tf.BertTextClassifier.from_preset(home / "encoder", num_classes=2)
        model.compile()
        assert float(model.optimizer.learning_rate) == pytest.approx(rate)
