from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.cli import main
from bert_tf.entry.printed import printable


@given(st.text())
def test_control_characters_are_escaped_and_json_keeps_its_value(text: str) -> None:
    shown = printable(text)
    assert not any((ord(one) < 32 and one not in "\t\n") or 127 <= ord(one) < 160 for one in shown)
    assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text


def test_ordinary_text_is_unchanged() -> None:
    assert printable("a\tb\nç 中 é") == "a\tb\nç 中 é"
    assert printable("\x1b[2J\u202ex") == "\\u001b[2J\\u202ex"


def test_names_in_errors_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "a\x1b[31mb"]) == 1
    assert "\x1b" not in capsys.readouterr().err
