"""Creates tests/testdata/huggingface_*: small random checkpoints by transformers, with its outputs.

Runs in a checkout where torch and transformers are installed (made with torch 2.15 and transformers 5.23, those of
ModernBERT with transformers 5.24). Without names it makes all of them:

    PYTHONPATH=. python tests/testdata/make_huggingface.py [NAME ...]
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import string
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent
CONVERSION = HERE.parents[1] / "bert_tf" / "conversion"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TOKENS = (*SPECIAL, *string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase), ".", ",", "!")
CASED = (*SPECIAL, *string.ascii_letters, ".", ",", "##a")
SHAPE = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 20,
    "initializer_range": 0.2,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "pretraining": ("BertForPreTraining", {}),
    "masked_lm": ("BertForMaskedLM", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5}),
    "backbone": ("BertModel", {"hidden_act": "relu", "type_vocab_size": 1}),
    "sequence_classification": (
        "BertForSequenceClassification",
        {"id2label": {0: "bad", 1: "fair", 2: "good"}, "classifier_dropout": 0.3, "type_vocab_size": 3},
    ),
    "token_classification": ("BertForTokenClassification", {"num_labels": 5, "attention_probs_dropout_prob": 0.0}),
    "question_answering": ("BertForQuestionAnswering", {"max_position_embeddings": 33}),
    "multiple_choice": ("BertForMultipleChoice", {"num_attention_heads": 4, "hidden_act": "gelu_pytorch_tanh"}),
    # Longer than its window; the first, third and fifth layer see all tokens.
    "modern_masked_lm": (
        "ModernBertForMaskedLM",
        {
            "num_hidden_layers": 5,
            "global_attn_every_n_layers": 2,
            "max_position_embeddings": 300,
            "local_attention": 64,
        },
    ),
    # The layers and heads of the released models, narrower, with the keys of their config.json.
    "modern_base": (
        "ModernBertForMaskedLM",
        {
            "num_hidden_layers": 22,
            "num_attention_heads": 12,
            "hidden_size": 24,
            "intermediate_size": 36,
            "max_position_embeddings": 300,
            "local_attention": 128,
        },
    ),
    "modern_large": (
        "ModernBertForMaskedLM",
        {
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "hidden_size": 32,
            "intermediate_size": 40,
            "max_position_embeddings": 300,
            "local_attention": 128,
        },
    ),
    "modern_backbone": ("ModernBertModel", {"attention_dropout": 0.1}),
    "modern_sequence_classification": (
        "ModernBertForSequenceClassification",
        {"id2label": {0: "bad", 1: "fair", 2: "good"}, "classifier_pooling": "mean", "classifier_dropout": 0.3},
    ),
    "modern_token_classification": ("ModernBertForTokenClassification", {"num_labels": 5}),
    "modern_question_answering": ("ModernBertForQuestionAnswering", {"local_attention": 10}),
    "modern_multiple_choice": (
        "ModernBertForMultipleChoice",
        {
            "norm_bias": True,
            "mlp_bias": True,
            "attention_bias": True,
            "classifier_bias": True,
            "local_rope_theta": 500.0,
        },
    ),
}
MODERN_SHAPE = {"num_hidden_layers": 4, "local_attention": 8, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
                "cls_token_id": 2, "sep_token_id": 3}  # fmt: skip


def main() -> None:
    for number, (name, (kind, fields)) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(number)
        if kind.startswith("Modern"):
            config = transformers.ModernBertConfig(**(SHAPE | MODERN_SHAPE | fields))
        else:
            config = transformers.BertConfig(**(SHAPE | fields))
        model = getattr(transformers, kind)(config).eval()
        for parameter in model.parameters():
            # Biases and scales of a new model are 0 and 1, which would hide errors.
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
        directory = HERE / f"huggingface_{name}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        save(name, model, directory)
        answer(model, directory)


def save(name: str, model: Any, directory: Path) -> None:
    tokens, settings = TOKENS, {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}
    if name == "modern_large":
        model.to(torch.bfloat16).save_pretrained(directory)
    elif name.endswith("sequence_classification"):
        model.to(torch.bfloat16).save_pretrained(directory, max_shard_size=4000)
    elif name == "token_classification":
        tokens, settings = CASED, {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
        model.half().save_pretrained(directory)
    else:
        model.save_pretrained(directory)
    if name in ("modern_base", "modern_large"):
        as_released(directory / "config.json")
    state = dict(model.state_dict())
    if name == "masked_lm":
        (directory / "model.safetensors").unlink()
        # Until 2023 the table of positions was stored with the weights.
        state["bert.embeddings.position_ids"] = torch.arange(20).expand(1, -1)
        torch.save(state, directory / "pytorch_model.bin")
    elif name == "backbone":
        (directory / "model.safetensors").unlink()
        save_as_in_2019(state, directory)
        (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
        return
    if name == "question_answering":
        vocabulary = {token: number for number, token in enumerate(tokens)}
        transformers.BertTokenizer(vocab=vocabulary, do_lower_case=True).save_pretrained(directory)
        return
    (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))


def as_released(path: Path) -> None:
    """Writes the keys of transformers 4.48, which the released models have."""
    config = json.loads(path.read_text())
    config["global_attn_every_n_layers"] = 3
    for name, key in (("full_attention", "global_rope_theta"), ("sliding_attention", "local_rope_theta")):
        config[key] = config["rope_parameters"][name]["rope_theta"]
    for key in ("layer_types", "rope_parameters", "dtype"):
        del config[key]
    config |= {"torch_dtype": "float32", "position_embedding_type": "absolute", "layer_norm_eps": 1e-05,
               "gradient_checkpointing": False, "transformers_version": "4.47.0.dev0"}  # fmt: skip
    path.write_text(json.dumps(config, indent=2))


def save_as_in_2019(state: dict[str, torch.Tensor], directory: Path) -> None:
    renamed = {}
    for name, tensor in state.items():
        if "LayerNorm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        # Weights converted from TensorFlow were transposed views.
        renamed[name] = tensor.t().contiguous().t() if tensor.ndim == 2 and "dense" in name else tensor
    torch.save(renamed, directory / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    config = json.loads((directory / "config.json").read_text())
    for key in ("architectures", "model_type", "transformers_version", "dtype", "layer_norm_eps", "pad_token_id"):
        config.pop(key, None)
    (directory / "config.json").write_text(json.dumps(config, indent=2))


def answer(model: Any, directory: Path) -> None:
    spec = importlib.util.spec_from_file_location("probe_inputs", CONVERSION / "verify" / "probe_inputs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = SimpleNamespace(
        max_sequence_length=model.config.max_position_embeddings,
        num_segments=getattr(model.config, "type_vocab_size", 0),
        vocabulary_size=model.config.vocab_size,
    )
    inputs = directory / "inputs.npz"
    np.savez(inputs, **module.fixed_inputs(config))
    program = CONVERSION / "verify" / "programs" / "huggingface.py"
    subprocess.run(
        [sys.executable, str(program), str(directory), str(inputs), str(directory / "outputs.npz")], check=True
    )
    inputs.unlink()


if __name__ == "__main__":
    main()
