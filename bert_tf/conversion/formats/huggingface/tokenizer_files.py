"""Writes the tokenizer files of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_tf.config import save_json
from bert_tf.conversion.formats.huggingface.tokenizer import (
    SETTINGS_NAME,
    SPECIAL_NAME,
    TOKENIZER_NAME,
    VOCABULARY_NAME,
)
from bert_tf.text.tokenizer import MAX_WORD_CHARS
from bert_tf.text.vocabulary import CLS, CONTINUATION, MASK, PAD, SEP, UNK, Vocabulary, save_vocabulary

_SPECIAL = {"unk_token": UNK, "sep_token": SEP, "pad_token": PAD, "cls_token": CLS, "mask_token": MASK}


def write_tokenizer(
    directory: Path, vocabulary: Vocabulary, lowercase: bool, longest: int, added: tuple[str, ...] = ()
) -> None:
    """Writes vocab.txt, tokenizer.json, tokenizer_config.json and special_tokens_map.json.

    Args:
        directory: directory to write to.
        vocabulary: vocabulary without padding.
        lowercase: whether text is lower-cased and stripped of accents.
        longest: maximum sequence length of the model in tokens.
        added: added tokens at the end of the vocabulary, which are whole words rather than word pieces.
    """
    pieces = vocabulary.tokens
    added = added if added and pieces[-len(added) :] == added else ()
    if added:
        pieces = pieces[: -len(added)]
        save_json({token: len(pieces) + number for number, token in enumerate(added)}, directory / "added_tokens.json")
    save_vocabulary(Vocabulary(pieces), directory / VOCABULARY_NAME)
    _chain(Vocabulary(pieces), lowercase, added).save(str(directory / TOKENIZER_NAME))
    save_json(_SPECIAL, directory / SPECIAL_NAME)
    settings: dict[str, Any] = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "model_max_length": longest,
    }
    tokens = [(vocabulary.id_of(token), token, True) for token in _SPECIAL.values()]
    tokens += [(vocabulary.id_of(token), token, False) for token in added]
    settings["added_tokens_decoder"] = {
        str(number): {"content": token, "lstrip": False, "normalized": not special, "rstrip": False,
                      "single_word": False, "special": special}
        for number, token, special in sorted(tokens)
    }  # fmt: skip
    save_json(settings | _SPECIAL, directory / SETTINGS_NAME)


def _chain(vocabulary: Vocabulary, lowercase: bool, added: tuple[str, ...]) -> Tokenizer:
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    chain = Tokenizer(
        models.WordPiece(
            ids, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARS, continuing_subword_prefix=CONTINUATION
        )
    )
    chain.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=lowercase
    )
    chain.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    chain.decoder = decoders.WordPiece(prefix=CONTINUATION)
    chain.post_processor = processors.TemplateProcessing(
        single=f"{CLS}:0 $A:0 {SEP}:0",
        pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
        special_tokens=[(CLS, vocabulary.cls_id), (SEP, vocabulary.sep_id)],
    )
    chain.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL.values()])
    chain.add_tokens([AddedToken(token) for token in added])
    return chain
