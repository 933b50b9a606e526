"""Column files: every word once, lines preserved, errors with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.encoding.words import NerAnswer
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.ner.files import read_columns
from bert_tf.tasks.ner.task import NerTask

FIRST_AND_LAST = (0, -1)
CONLL = b"""-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER


-DOCSTART- -X- -X- O

BRUSSELS NNP I-NP I-LOC

"""
WNUT = b"@paul\tO\n#NFL\tO\n\t\n# \tO\nIke\tB-person\n \t \n"


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "eng.train"
    path.write_bytes(content)
    return path


def read(path: Path, columns: tuple[int, int] = FIRST_AND_LAST, labelled: bool = True) -> list:
    return list(read_columns(path, *columns, InputErrors(), labelled))


def words_and_tags(sentences: list) -> list[tuple[str, str]]:
    return [(" ".join(sentence.words), " ".join(sentence.tags)) for sentence in sentences]


CONLL_READ = [("EU rejects", "I-ORG O"), ("Peter Blackburn", "I-PER I-PER"), ("BRUSSELS", "I-LOC")]


@pytest.mark.parametrize(
    ("content", "columns", "expected"),
    [
        (CONLL, FIRST_AND_LAST, CONLL_READ),
        (CONLL.replace(b"\n", b"\r\n"), FIRST_AND_LAST, CONLL_READ),
        (b"\xef\xbb\xbf" + CONLL[CONLL.index(b"EU") :], FIRST_AND_LAST, CONLL_READ),
        (CONLL.rstrip(), FIRST_AND_LAST, CONLL_READ),
        (CONLL.replace(b" ", b"   "), FIRST_AND_LAST, CONLL_READ),
        (CONLL.replace(b" ", b"\t"), FIRST_AND_LAST, CONLL_READ),
        (CONLL.replace(b"-DOCSTART- -X- -X- O", b"-DOCSTART-"), FIRST_AND_LAST, CONLL_READ),
        (WNUT, FIRST_AND_LAST, [("@paul #NFL", "O O"), ("# Ike", "O B-person")]),
        (b"en:R.H.\tB-ORG\nen::\tO\n\nen:en:x\tO\n", FIRST_AND_LAST, [("R.H. :", "B-ORG O"), ("en:x", "O")]),
        (b"en:R.H.\tB-ORG\nx:\tO\n", FIRST_AND_LAST, [("en:R.H. x:", "B-ORG O")]),
        (b"1\tO\tEU\n2\tB-X\tde\n", (2, 1), [("EU de", "O B-X")]),
        (b"O 1 EU\n", (-1, 0), [("EU", "O")]),
        ("a\u2028b\u00a0c\tO\nd e\x85\tO\n".encode(), FIRST_AND_LAST, [("a\u2028b\u00a0c d e\x85", "O O")]),
        (b"\tO\n\x00\tB-X\n", FIRST_AND_LAST, [(" \x00", "O B-X")]),
        (b"# id 1\tdomain=en\nEU _ _ O\n", FIRST_AND_LAST, [("EU", "O")]),
        (b"# id 1 x\nEU _ _ O\n# _ _ B-X\n", FIRST_AND_LAST, [("EU #", "O B-X")]),
        (b"# O\n", FIRST_AND_LAST, [("#", "O")]),
        (b"# remark\nEU O\n", FIRST_AND_LAST, [("EU", "O")]),
        (b"", FIRST_AND_LAST, []),
        (b"\n \n", FIRST_AND_LAST, []),
    ],
    ids=["conll", "crlf", "bom", "no end", "many spaces", "tabs", "bare docstart", "wnut", "wikiann", "no prefix",
         "tag before", "last token", "odd spaces", "empty words", "ids with tab", "ids", "hash", "remark", "empty",
         "blank"],
)  # fmt: skip
def test_words_and_tags_are_read(tmp_path, content, columns, expected):
    assert words_and_tags(read(write(tmp_path, content), columns)) == expected


def test_positions_and_documents(tmp_path):
    path = write(tmp_path, CONLL)
    sentences = read(path)
    assert [sentence.line for sentence in sentences] == [3, 6, 12]
    assert sentences[1].place_of(1) == f"{path}: line 7"
    assert [sentence.begins_document for sentence in sentences] == [True, False, True]
    task = NerTask(document_context=True)
    documents = [(sentence.document, sentence.number) for sentence in task.read(path, InputErrors())]
    first = (("EU", "rejects"), ("Peter", "Blackburn"))
    assert documents == [(first, 0), (first, 1), ((("BRUSSELS",),), 0)]


@pytest.mark.parametrize("content", [b"EU\nrejects\n\nBRUSSELS\n", b"EU _ X\nrejects _ X\n\nBRUSSELS _ X\n"])
def test_files_without_tags(tmp_path, content):
    sentences = read(write(tmp_path, content), labelled=False)
    assert words_and_tags(sentences) == [("EU rejects", ""), ("BRUSSELS", "")]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        (b"EU O\nrejects\n", FIRST_AND_LAST, r"line 2: expected 2 columns, as in line 1. Received: \['rejects'\]"),
        (b"EU NNP O\nof IN\n", FIRST_AND_LAST, r"line 2: expected 3 columns, as in line 1. Received: \['of', 'IN'\]"),
        (b"EU\tO\nNew York\n", FIRST_AND_LAST, "line 2: expected 2 columns, as in line 1"),
        (b"\nEU NNP\n", FIRST_AND_LAST, "line 2: column 1, counted from 0, must be a tag: O, or B-.* Received: 'NNP'"),
        (b"EU\n", FIRST_AND_LAST, r"line 1: no column -1 for tags. Received: 1 column\(s\): 'EU'"),
        (b"EU O\n", (2, -1), r"line 1: no column 2 for words. Received: 2 column\(s\)"),
        (b"EU O\nna\xefve O\n", FIRST_AND_LAST, "line 2: not UTF-8"),
    ],
)
def test_invalid_files_are_refused(tmp_path, content, columns, message):
    with pytest.raises(ValueError, match=f"eng.train: {message}"):
        read(write(tmp_path, content), columns)


def test_invalid_sentences_are_skipped_and_counted(tmp_path):
    path = write(tmp_path, b"EU O\n\na\nb X\n\n-DOCSTART- O\n\nc\n\nIke B-P\n")
    input_errors = InputErrors(skip=True)
    sentences = list(read_columns(path, *FIRST_AND_LAST, input_errors, True))
    assert words_and_tags(sentences) == [("EU", "O"), ("Ike", "B-P")]
    assert [problem.place.rpartition(" ")[2] for problem in input_errors.problems] == ["3", "4", "8"]
    assert sentences[1].begins_document


CONLL_ANSWERED = b"""-DOCSTART- -X- -X- O O

EU NNP I-NP I-ORG I-PER
rejects VBZ I-VP O O

Peter NNP I-NP I-PER O
Blackburn NNP I-NP I-PER I-LOC


-DOCSTART- -X- -X- O O

BRUSSELS NNP I-NP I-LOC O

"""
TAGS = [NerAnswer(tags) for tags in (("I-PER", "O"), ("O", "I-LOC"), ("O",))]


@pytest.mark.parametrize(
    ("content", "columns", "expected"),
    [
        (CONLL, FIRST_AND_LAST, CONLL_ANSWERED),
        (b"-DOCSTART-\nO\ta\nO\tb\n\t\nO\tc\nB-X\td\n\nO\te", (1, 0),
         b"-DOCSTART-\tO\t-DOCSTART-\tO\nO\ta\tO\tI-PER\nO\tb\tO\tO\n\nO\tc\tO\tO\nB-X\td\tB-X\tI-LOC\n\nO\te\tO\tO\n"),
        (b"a  1 O\nb 2   O\n\n# id 1\nc 3 O\nd 4 O\n\ne 5 O\n\n\n", FIRST_AND_LAST,
         b"a 1 O I-PER\nb 2 O O\n\n# id 1\nc 3 O O\nd 4 O I-LOC\n\ne 5 O O\n\n\n"),
    ],
    ids=["conll", "tag first", "spaces"],
)  # fmt: skip
def test_predictions_keep_the_layout_of_the_file(tmp_path, content, columns, expected):
    path, output = write(tmp_path, content), tmp_path / "out"
    task = NerTask(token_column=columns[0], tag_column=columns[1], scheme="IOB1")
    sentences = list(task.read(path, InputErrors()))
    # Reads the file in two parts, as for files larger than memory.
    task.write(output, iter([(sentences[:1], TAGS[:1]), (sentences[1:], TAGS[1:])]))
    assert output.read_bytes() == expected
    assert task.read_answers(output, sentences) == TAGS


def test_predictions_for_a_file_without_tags(tmp_path):
    path, output = write(tmp_path, b"a\nb\n\n-DOCSTART-\n\nc\nd\n\ne\n"), tmp_path / "out"
    task = NerTask(scheme="IOB1")
    sentences = list(task.read(path, InputErrors(), labelled=False))
    task.write(output, iter([(sentences, TAGS)]))
    assert output.read_bytes() == b"a I-PER\nb O\n\n-DOCSTART- O\n\nc O\nd I-LOC\n\ne O\n"


@pytest.mark.parametrize(
    "content", [b"a I-PER\nb O\nc O\nd I-LOC\ne O\n", b"\xef\xbb\xbfa\tx\tI-PER\r\nb\tx\tO\n\nc\tO\nd\tI-LOC\n\ne\tO"]
)
def test_predictions_of_other_programs(tmp_path, content):
    sentences = read(write(tmp_path, b"a O\nb O\n\nc O\nd O\n\ne O\n"))
    (tmp_path / "theirs").write_bytes(content)
    assert NerTask().read_answers(tmp_path / "theirs", sentences) == TAGS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a O\n", "must continue with 'b', the word at .*eng.train: line 2. Received: the end of the file"),
        (b"b O\na O\n", r"line 1: column 0 must be 'a', the word at .*line 1. Received: \['b', 'O'\]"),
        (b"a O\n\nb X\n", "line 3: the last of several columns must be a tag: .*'X'"),
        (b"a\nb\n", "line 1: the last of several columns must be a tag"),
        (b"a O\nb O\nc O\n", "line 3: must be the end of the file"),
        (b"", "must continue with 'a'"),
    ],
)
def test_invalid_predictions_are_refused(tmp_path, content, message):
    sentences = read(write(tmp_path, b"a O\nb O\n"))
    (tmp_path / "theirs").write_bytes(content)
    with pytest.raises(ValueError, match=f"theirs: {message}"):
        NerTask().read_answers(tmp_path / "theirs", sentences)


@pytest.mark.parametrize(
    ("name", "sentences", "words"),
    [
        ("wnut17/emerging.dev.conll", 1_009, 15_733),
        pytest.param("wikiann_en/dev", 10_000, 80_536, marks=pytest.mark.slow),
        pytest.param("wnut17/wnut17train.conll", 3_394, 62_730, marks=pytest.mark.slow),
    ],
)
def test_real_files_are_read_completely(shared_data, tmp_path, name, sentences, words):
    path = shared_data / "finetune/ner" / name
    task = NerTask()
    found = list(task.read(path, InputErrors()))
    assert (len(found), sum(len(sentence.words) for sentence in found)) == (sentences, words)
    assert not any(sentence.words[0].startswith("en:") for sentence in found)
    assert task.fit_labels(found).scheme == "IOB2"
    gold = [NerAnswer(sentence.tags) for sentence in found]
    assert task.score(found, gold)["f1"] == 1.0
    task.write(tmp_path / "out", iter([(found, gold)]))
    lines = path.read_text(encoding="utf-8").split("\n")
    expected = ["\t".join((line, line.split("\t")[1])) if line.strip() else "" for line in lines]
    assert (tmp_path / "out").read_text(encoding="utf-8").split("\n") == expected


def test_a_document_may_have_a_number(tmp_path: Path) -> None:
    words = b"Aspirin\tNN\tB-Drug\nhelps\tVB\tO\n"
    path = write(tmp_path, b"-DOCSTART- (101)\n\n" + words + b"\n-DOCSTART- (102)\n\nRest\tNN\tO\n")
    sentences = read(path, FIRST_AND_LAST)
    assert [sentence.words for sentence in sentences] == [("Aspirin", "helps"), ("Rest",)]
    assert all(sentence.begins_document for sentence in sentences)
