"""Docstrings become prose: code, tables, headings and mark-up are dropped, sentences are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.data.corpora.docstrings import documentation_files, file_documents, library_documents, prose


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Returns the sum of all\n    the numbers given.", ["Returns the sum of all the numbers given."]),
        ("Too short.", []),
        ("no capital at the start of this one sentence.", []),
        ("This line has no full stop at its end", []),
        (
            "Adds two numbers and returns what they make.\n\n>>> add(1, 2)\n3\n\nNothing else is ever done to them.",
            ["Adds two numbers and returns what they make.", "Nothing else is ever done to them."],
        ),
        (
            "Shows how the thing is called by users::\n\n    Some code that looks like prose does.\n\n"
            "And this is prose once more, really.",
            ["Shows how the thing is called by users:", "And this is prose once more, really."],
        ),
        ("```python\nThis is code inside of a fence here.\n```\n", []),
        (
            "Args:\n  value (int): The number that is to be looked at.\n"
            "  other: Another number which is left alone here.",
            ["The number that is to be looked at.", "Another number which is left alone here."],
        ),
        (
            "- The first of the points made by us.\n- The second of the points made by us.",
            ["The first of the points made by us.", "The second of the points made by us."],
        ),
        (
            ":param x: The number that is to be looked at.\n:returns: The very same number that was given.",
            ["The number that is to be looked at.", "The very same number that was given."],
        ),
        (
            "Uses :class:`~a.b.Thing` and ``code`` and *stress* and [a link](x.html) to say it.",
            ["Uses a.b.Thing and code and stress and a link to say it."],
        ),
        ("=====  =====\nA      B\n=====  =====\n1      2\n=====  =====", []),
        ("The value of x[0] = y[1] + {z: 3} % 17 * q(r).", []),
    ],
)
def test_prose(docstring: str, expected: list[str]) -> None:
    assert prose(docstring) == expected


def test_a_document_for_the_module_and_each_class(tmp_path: Path) -> None:
    path = tmp_path / "thing.py"
    path.write_text(
        '"""The module is here to show what is read."""\n'
        'def f():\n    """The function belongs to the module it is in."""\n'
        'class C:\n    """The class makes a document of its own here."""\n'
        '    async def m(self):\n        """The method belongs to the class it is in."""\n'
        '    def n(self):\n        f"""An f-string is no docstring of anything at all."""\n'
    )
    documents = file_documents("label", path)
    assert [(d.label, d.name, len(d.paragraphs)) for d in documents] == [
        ("label", "thing", 2),
        ("label", "thing.C", 2),
    ]
    assert documents[0].paragraphs[1] == "The function belongs to the module it is in."


@pytest.mark.parametrize("content", [b"def broken(:\n", b"\x00", b"\xff\xfe", b""])
def test_other_files_have_no_docstrings(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "template.py"
    path.write_bytes(content)
    assert file_documents("label", path) == []


def test_the_standard_library_is_found_in_a_fixed_order() -> None:
    files = documentation_files(["json", "argparse"])
    assert files == sorted(files)
    assert {label for label, _ in files} == {"json", "argparse"}
    assert not any("test" in path.parts for _, path in files)
    documents = list(library_documents(["json", "argparse"]))
    assert documents == list(library_documents(["argparse", "json"]))
    assert any("JSON" in paragraph for document in documents for paragraph in document.paragraphs)


def test_an_unknown_package_is_named() -> None:
    with pytest.raises(ValueError, match="installed: no_such_library"):
        documentation_files(["json", "no_such_library"])
