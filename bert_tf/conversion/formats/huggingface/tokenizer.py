"""Reads and writes the tokenizer files of Hugging Face's directories.

Settings that this project does not support are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_tf.config import save_json
from bert_tf.conversion.checkpoint import conversion_errors, read_json, read_vocabulary
from bert_tf.conversion.tensors import ConversionError
from bert_tf.text.byte_pair_vocabulary import BytePairVocabulary, is_byte_pairs, load_byte_pairs
from bert_tf.text.vocabulary import CLS, CONTINUATION, MASK, MAX_WORD_CHARS, PAD, SEP, UNK, Vocabulary, save_vocabulary

VOCABULARY_NAME, TOKENIZER_NAME, SETTINGS_NAME = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
SPECIAL_NAME, ADDED_NAME = "special_tokens_map.json", "added_tokens.json"
# The tokenizers of DistilBERT and ELECTRA are BERT's under another name.
CLASSES = (
    "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast", "ElectraTokenizer",
    "ElectraTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend",
)  # fmt: skip
# Longer words become [UNK]: more than 100 characters in transformers, more than 200 here and in the original.
_LONGEST_WORDS = (100, 200)
_SPECIAL = {"unk_token": UNK, "sep_token": SEP, "pad_token": PAD, "cls_token": CLS, "mask_token": MASK}
_FIXED: dict[str, tuple[Any, ...]] = {
    "tokenize_chinese_chars": (True, None),
    "do_basic_tokenize": (True, None),
    "do_wordpiece_tokenize": (True, None),
    "clean_text": (True, None),
    "never_split": (None, []),
    "wordpieces_prefix": (CONTINUATION, None),
    "auto_map": (None,),
    "keep_accents": (None,),
    "word_tokenizer_type": (None, "basic"),
    "subword_tokenizer_type": (None, "wordpiece"),
}
# Default truncation and padding of calls, and file locations, which do not affect the word pieces of a text.
_HARMLESS = (
    "model_max_length", "max_len", "max_length", "max_seq_length", "stride", "truncation", "truncation_side",
    "truncation_strategy", "padding", "padding_side", "pad_to_multiple_of", "pad_token_type_id", "do_pad",
    "model_input_names", "name_or_path", "_name_or_path", "special_tokens_map_file", "tokenizer_file", "vocab_file",
    "full_tokenizer_file", "from_slow", "use_fast", "init_inputs", "clean_up_tokenization_spaces", "processor_class",
    "transformers_version", "backend", "is_local", "local_files_only", "trust_remote_code", "cache_dir", "revision",
    "use_auth_token", "token", "return_token_type_ids", "return_tensors", "device_map", "errors", "bos_token",
    "eos_token", "split_special_tokens", "chat_template", "vocab_size", "language", "fix_mistral_regex",
    "add_special_tokens", "verbose", "subfolder", "legacy", "special_tokens", "model_type",
)  # fmt: skip
_READ = ("tokenizer_class", "do_lower_case", "strip_accents", "added_tokens_decoder", "additional_special_tokens",
         "extra_special_tokens")  # fmt: skip


@dataclass(frozen=True)
class TokenizerFiles:
    """The contents of the tokenizer files; None for values that neither a file nor the directory's name defines.

    `vocabulary` ends with the `added` tokens, in the order of their ids. `source` is the file of the word pieces, and
    `longest` the maximum sequence length of the model in tokens.
    """

    vocabulary: Vocabulary | None
    source: Path
    lowercase: bool | None
    added: tuple[str, ...] = field(default=())
    longest: int | None = None

    def info(self) -> dict[str, Any]:
        """Returns the values that a preset keeps."""
        added = {"added_tokens": list(self.added)} if self.added else {}
        return added if self.longest is None else added | {"model_max_length": self.longest}


def read_tokenizer(directory: Path, class_name: Any, vocab: Path | None) -> TokenizerFiles:
    """Reads a tokenizer's files. Raises ConversionError for a class, setting or special token that BERT's lacks."""
    settings = _json(directory / SETTINGS_NAME)
    longest = settings.get("model_max_length", settings.get("max_len"))
    # The library writes 10^30 for no limit.
    longest = longest if isinstance(longest, int) and longest < 10**9 else None
    file = directory / TOKENIZER_NAME
    if is_byte_pairs(_json(file)):
        if vocab is not None:
            raise ConversionError(f"{file}: is a byte-level BPE, which no vocab.txt replaces. Leave out --vocabulary.")
        _check_special(_json(directory / SPECIAL_NAME), directory / SPECIAL_NAME)
        _check_special(settings, directory / SETTINGS_NAME)
        with conversion_errors():
            return TokenizerFiles(load_byte_pairs(file), file, False, longest=longest)
    _check_settings(settings, directory / SETTINGS_NAME)
    _check_class(class_name, directory / "config.json")
    _check_special(_json(directory / SPECIAL_NAME), directory / SPECIAL_NAME)
    whole = _json(directory / TOKENIZER_NAME)
    if whole:
        _check_pipeline(whole, directory / TOKENIZER_NAME)
    lowercase = settings.get("do_lower_case")
    if lowercase is None and whole:
        lowercase = whole["normalizer"].get("lowercase", True)
    _check_accents(settings, whole, lowercase, directory)
    name = directory.absolute().name.lower()
    if lowercase is None and "cased" in name:
        lowercase = "uncased" in name
    source = vocab or directory / (VOCABULARY_NAME if (directory / VOCABULARY_NAME).is_file() else TOKENIZER_NAME)
    pieces = _pieces(whole, source, directory, vocab)
    if pieces is None:
        return TokenizerFiles(None, source, lowercase, longest=longest)
    added = () if vocab else _added(pieces, settings, whole, directory)
    try:
        vocabulary = Vocabulary((*pieces, *added))
    except ValueError as error:
        raise ConversionError(f"{source}: {error}") from error
    return TokenizerFiles(vocabulary, source, lowercase, added, longest)


def write_tokenizer(
    directory: Path, vocabulary: Vocabulary, lowercase: bool, longest: int, added: tuple[str, ...] = ()
) -> None:
    """Writes a tokenizer for at most `longest` tokens; `added` tokens at the vocabulary's end are whole words."""
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


def write_byte_pairs(directory: Path, vocabulary: BytePairVocabulary, longest: int) -> None:
    """Writes the files of a byte-level BPE for at most `longest` tokens."""
    save_vocabulary(vocabulary, directory / TOKENIZER_NAME)
    save_json(_SPECIAL, directory / SPECIAL_NAME)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest}
    save_json(settings | {"model_input_names": ["input_ids", "attention_mask"]} | _SPECIAL, directory / SETTINGS_NAME)


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


def _json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _check_settings(settings: Mapping[str, Any], path: Path) -> None:
    known = {*_FIXED, *_HARMLESS, *_READ, *_SPECIAL}
    for key, value in settings.items():
        if key not in known:
            raise ConversionError(f"{path}: unknown key `{key}`, which may change how text is split.")
        if key in _FIXED and not any(value == allowed and type(value) is type(allowed) for allowed in _FIXED[key]):
            values = " or ".join(repr(allowed) for allowed in _FIXED[key] if allowed is not None) or "missing"
            raise ConversionError(f"{path}: `{key}` must be {values}. Received: {value!r}")
    for key in ("do_lower_case", "strip_accents"):
        if settings.get(key) not in (True, False, None):
            raise ConversionError(f"{path}: `{key}` must be true, false or null. Received: {settings[key]!r}")
    _check_class(settings.get("tokenizer_class"), path)
    _check_special(settings, path)


def _check_class(name: Any, path: Path) -> None:
    if name is not None and name not in CLASSES:
        raise ConversionError(f"{path}: `tokenizer_class` must be one of {', '.join(CLASSES)}. Received: {name!r}")


def _check_special(settings: Mapping[str, Any], path: Path) -> None:
    for key, name in _SPECIAL.items():
        if key in settings and _content(settings[key]) != name:
            raise ConversionError(f"{path}: `{key}` must be {name}. Received: {settings[key]!r}")


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, Mapping) else token


def _check_pipeline(whole: Mapping[str, Any], path: Path) -> None:
    """Checks that tokenizer.json has the steps of BERT's tokenizer with BERT's settings."""
    for part, kinds in (
        ("model", ("WordPiece",)),
        ("normalizer", ("BertNormalizer",)),
        ("pre_tokenizer", ("BertPreTokenizer",)),
        ("post_processor", ("TemplateProcessing", "BertProcessing", None)),
    ):
        found = whole.get(part) or {}
        if not isinstance(found, Mapping) or (part == "model" and not found):
            raise ConversionError(f"{path}: `{part}` must be an object. Received: {whole.get(part)!r}")
        kind = found.get("type")
        # Early versions did not store the type of the model.
        if kind not in kinds and not (part == "model" and kind is None and "max_input_chars_per_word" in whole[part]):
            raise ConversionError(f"{path}: `{part}` must be {kinds[0]}. Received: {kind!r}")
    model, normalizer = whole["model"], whole["normalizer"]
    for key, value, allowed in (
        ("model.unk_token", _content(model.get("unk_token")), (UNK,)),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix", CONTINUATION), (CONTINUATION,)),
        ("model.max_input_chars_per_word", model.get("max_input_chars_per_word", 100), _LONGEST_WORDS),
        ("normalizer.clean_text", normalizer.get("clean_text", True), (True,)),
        ("normalizer.handle_chinese_chars", normalizer.get("handle_chinese_chars", True), (True,)),
        ("normalizer.lowercase", normalizer.get("lowercase", True), (True, False)),
    ):
        if value not in allowed:
            raise ConversionError(f"{path}: `{key}` must be {' or '.join(map(repr, allowed))}. Received: {value!r}")


def _check_accents(
    settings: Mapping[str, Any], whole: Mapping[str, Any], lowercase: bool | None, directory: Path
) -> None:
    path = directory / SETTINGS_NAME
    strip = settings.get("strip_accents")
    if "strip_accents" not in settings and "do_lower_case" not in settings and whole:
        path, strip = directory / TOKENIZER_NAME, whole["normalizer"].get("strip_accents")
    if strip is not None and lowercase is not None and strip != lowercase:
        raise ConversionError(
            f"{path}: `strip_accents` must equal lower-casing, {lowercase}: BERT does both or neither. "
            f"Received: {strip}"
        )


def _pieces(whole: Mapping[str, Any], source: Path, directory: Path, vocab: Path | None) -> tuple[str, ...] | None:
    listed = _listed(whole, directory / TOKENIZER_NAME) if whole else None
    if not source.is_file():
        if vocab is not None:
            raise ConversionError(f"{vocab}: no such file.")
        return None
    if source.name == TOKENIZER_NAME and source.parent == directory and vocab is None:
        return listed
    pieces = read_vocabulary(source).tokens
    shorter = min(len(pieces), len(listed or ()))
    if listed and vocab is None and pieces[:shorter] != listed[:shorter]:
        first = next(number for number in range(shorter) if pieces[number] != listed[number])
        raise ConversionError(
            f"{directory / TOKENIZER_NAME}: must have the word pieces of {VOCABULARY_NAME}. "
            f"Received: id {first} is {listed[first]!r} instead of {pieces[first]!r}"
        )
    return pieces


def _listed(whole: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    ids = whole["model"].get("vocab")
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise ConversionError(f"{path}: `model.vocab` must map word pieces to ids. Received: {type(ids).__name__}")
    numbers = dict(ids)
    # A special token may be listed among the added tokens only.
    for number, token in _entries(whole.get("added_tokens") or (), path):
        numbers.setdefault(token, number)
    tokens = sorted(numbers, key=lambda token: numbers[token])
    holes = [number for number, token in enumerate(tokens) if numbers[token] != number]
    if holes:
        raise ConversionError(f"{path}: ids must be 0 to {len(tokens) - 1}. Received: no id {holes[0]}")
    return tuple(tokens)


def _entries(entries: Iterable[Any], path: Path) -> list[tuple[int, str]]:
    try:
        return [(int(entry["id"]), str(entry["content"])) for entry in entries]
    except (KeyError, TypeError, ValueError) as error:
        raise ConversionError(f"{path}: every added token must have `id` and `content`: {error!r}") from error


def _added(
    pieces: tuple[str, ...], settings: Mapping[str, Any], whole: Mapping[str, Any], directory: Path
) -> tuple[str, ...]:
    """Returns the added tokens after the word pieces, in the order of their ids."""
    added: dict[int, tuple[str, Path]] = {}
    decoder = settings.get("added_tokens_decoder") or {}
    places = (
        (directory / SETTINGS_NAME, [{"id": number, "content": _content(token)} for number, token in decoder.items()]),
        (directory / TOKENIZER_NAME, whole.get("added_tokens") or []),
        (
            directory / ADDED_NAME,
            [{"id": number, "content": token} for token, number in _json(directory / ADDED_NAME).items()],
        ),
    )
    for path, entries in places:
        for number, token in _entries(entries, path):
            known = pieces[number] if 0 <= number < len(pieces) else added.get(number, (token, path))[0]
            if known != token or (number >= len(pieces) and token in pieces):
                raise ConversionError(f"{path}: id {number} must be of {known!r}. Received: {token!r}")
            if number >= len(pieces):
                added[number] = (token, path)
    numbers = sorted(added)
    wanted = list(range(len(pieces), len(pieces) + len(numbers)))
    if numbers != wanted:
        path = added[numbers[0]][1]
        raise ConversionError(
            f"{path}: ids of added tokens must continue those of the {len(pieces)} word pieces. Received: {numbers}"
        )
    return tuple(added[number][0] for number in numbers)
