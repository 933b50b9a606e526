"""A byte-level BPE in the layout of ModernBERT's `tokenizer.json`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The film was good, the film was great.",
    "A dull film; nobody liked the dull actors.",
    "Über die Brücke gehen 3 Männer, naïve ones.",
    "映画はとても良かった。",
    "def f(x):\n    return x ** 2",
]


@functools.cache
def tokenizer_json(size: int = 400, sentences: Sequence[str] = tuple(SENTENCES)) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(sentences * 3, trainer)
    # Runs of blanks, as in code, and the special tokens come after the trained tokens.
    tokenizer.add_tokens([AddedToken(" " * count, normalized=True) for count in (4, 2)])
    special = [AddedToken(f"[{name}]", special=True, normalized=False) for name in ("UNK", "CLS", "SEP", "PAD")]
    tokenizer.add_special_tokens([*special, AddedToken("[MASK]", special=True, normalized=False, lstrip=True)])
    ids = {name: tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=list(ids.items())
    )
    return tokenizer.to_str()
