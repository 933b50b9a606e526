"""Writes seqeval.json: results of seqeval for random tags of words, most of which violate every scheme.

    uv venv PEER
    uv pip install --python PEER/bin/python seqeval==1.2.2
    PEER/bin/python tests/testdata/make_seqeval.py

seqeval is not a dependency, because pip cannot build its source package with current setuptools.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import seqeval.metrics
from seqeval.metrics.sequence_labeling import get_entities

CASES, SEED = 150, 7
TYPES = ("PER", "LOC", "creative-work")
TAGS = ("O", *(f"{letter}-{kind}" for kind in TYPES for letter in "BIES"))


def case(chooser: random.Random) -> dict:
    """Returns expected and predicted tags of some sentences, with metrics and entities."""
    tags = chooser.choice((TAGS, TAGS[:7], ("O", "B-PER", "I-PER")))
    lengths = [chooser.randint(1, 8) for _ in range(chooser.randint(1, 4))]
    gold, predicted = ([chooser.choices(tags, k=length) for length in lengths] for _ in range(2))
    figures = {
        name: float(getattr(seqeval.metrics, f"{name}_score")(gold, predicted, zero_division=0))
        for name in ("precision", "recall", "f1")
    }
    figures["accuracy"] = float(seqeval.metrics.accuracy_score(gold, predicted))
    if any(map(get_entities, [*gold, *predicted])):
        report = seqeval.metrics.classification_report(gold, predicted, zero_division=0, output_dict=True)
        by_type = {name: row["f1-score"] for name, row in report.items() if not name.endswith(" avg")}
        figures |= {f"f1_{name}": float(value) for name, value in by_type.items()}
    return {"gold": gold, "predicted": predicted, "figures": figures, "entities": [get_entities(one) for one in gold]}


def main() -> None:
    """Writes the file beside this one."""
    chooser = random.Random(SEED)
    lines = ",\n".join(json.dumps(case(chooser)) for _ in range(CASES))
    Path(__file__).with_name("seqeval.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
