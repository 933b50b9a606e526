"""Python documentation: one document per module or class, from valid and invalid source files."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines.errors import InputError
from beam_pipelines.sources.documents import OVER_LONG, InputFile, Part, ReadSettings
from beam_pipelines.sources.python_docs import PythonDocs
from bert_tf.data.corpora.docstrings import documentation_files
from tests.support.beam_pipelines.source_samples import contents, read

SOURCE = '''"""This module has a sentence of more than six words."""

class Tool:
    """A tool does one thing, and it does it well, they say."""

    def use(self):
        """Uses the tool for the one thing that it does."""

class Undocumented:
    pass
'''


def test_documents_and_their_positions(tmp_path: Path) -> None:
    path = tmp_path / "tools.py"
    path.write_text(SOURCE)
    found = read(PythonDocs, path)
    assert [document.place for document in found] == ["tools", "tools.Tool"]
    assert found[1].paragraphs == (
        "A tool does one thing, and it does it well, they say.",
        "Uses the tool for the one thing that it does.",
    )
    assert [document.reason for document in read(PythonDocs, path, max_document_bytes=60)] == ["", OVER_LONG]


@pytest.mark.parametrize("content", [b"", b"def f(:\n", b"\x00\xff", "é = 1".encode("latin-1")])
def test_files_without_docstrings_give_no_documents(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tools.py"
    path.write_bytes(content)
    assert read(PythonDocs, path) == []


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.py: cannot be read"):
        read(PythonDocs, tmp_path / "gone.py")


def test_documentation_of_a_package() -> None:
    reader = PythonDocs(ReadSettings())
    files = [InputFile(str(path), path.stat().st_size, 0.0, label) for label, path in documentation_files(["json"])]
    parts = [part for file in files for part in reader.split(file)]
    assert parts == [Part(file.path, size=file.size, label="json") for file in files]
    found = [document for part in parts for document in reader.read(part)]
    assert len(found) > 2
    assert {Path(document.file).parent.name for document in found} == {"json"}
    assert all(paragraphs and not reason for paragraphs, reason in contents(found))
