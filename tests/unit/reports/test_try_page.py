"""Functions of the page of `bert-tf serve` that need no browser, run by V8: commands, offsets and words of failures."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py_mini_racer import MiniRacer

from bert_tf.reports.page import asset
from bert_tf.serving.http.page import page, page_headers

# V8 takes its code as UTF-8, which has no lone surrogates; NUL cannot be in a command.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
AWKWARD = "it's \"quoted\" `ls` $HOME \\ \\n !!\n\t東京 🐈 \u2028 ''"


@pytest.fixture(scope="module")
def engine() -> Any:
    engine = MiniRacer()
    engine.eval(asset("try_request.js"))
    return engine


def call(engine: Any, name: str, *arguments: Any) -> Any:
    """Returns the result of a function of the page, with JSON values on both sides."""
    return json.loads(engine.eval(f"JSON.stringify({name}(...{json.dumps(arguments)}) ?? null)"))


def words_of(command: str) -> list[str]:
    """Returns the words of a command, as a shell splits it."""
    return shlex.split(command.replace(" \\\n", " "))


@given(TEXTS, TEXTS)
def test_the_command_sends_the_inputs_as_they_are(engine: Any, first: str, second: str) -> None:
    inputs = {"text": first, "choices": [second, AWKWARD]}
    body = call(engine, "requestBody", inputs)
    words = words_of(call(engine, "curlCommand", "http://[::1]:8501/v1/models/m:predict", body, False))
    assert words[:4] == ["curl", "http://[::1]:8501/v1/models/m:predict", "-H", "Content-Type: application/json"]
    assert words[4] == "-d" and json.loads(words[5]) == {"instances": [inputs]} and len(words) == 6


def test_a_single_input_is_sent_without_its_name(engine: Any) -> None:
    assert json.loads(call(engine, "requestBody", {"text": AWKWARD})) == {"instances": [AWKWARD]}


def test_the_command_takes_the_token_from_the_environment(engine: Any) -> None:
    command = call(engine, "curlCommand", "http://localhost/v1/models/m:predict", "{}", True)
    assert '-H "Authorization: Bearer $BERT_TF_SERVE_TOKEN"' in command


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="/:"), min_size=1))
def test_the_path_of_any_name_is_one_word(engine: Any, name: str) -> None:
    command = call(engine, "curlCommand", f"http://x{call(engine, 'modelPath', name, '3')}:predict", "{}", False)
    path = words_of(command)[1]
    assert path.startswith("http://x/v1/models/") and path.endswith("/versions/3:predict")
    assert path.isascii() and path.count("/") == 7


@given(TEXTS, st.lists(st.tuples(st.integers(-1, 45), st.integers(-1, 45)), max_size=6))
def test_pieces_cover_the_text_and_count_code_points(engine: Any, text: str, ends: list[tuple[int, int]]) -> None:
    spans = [{"start": min(pair), "end": max(pair)} for pair in ends]
    pieces = call(engine, "pieces", text, spans)
    assert "".join(piece["text"] for piece in pieces) == text
    at = 0
    for piece in pieces:
        limit = at + len(piece["text"])
        inside = [n for n, span in enumerate(spans) if max(0, span["start"]) <= at < limit <= span["end"]]
        assert sorted(piece["spans"]) == inside
        at = limit
    ending = [number for piece in pieces for number in piece["ending"]]
    shown = [n for n, span in enumerate(spans) if max(0, span["start"]) < min(len(text), span["end"])]
    assert sorted(ending) == shown


@pytest.mark.parametrize(
    ("text", "start", "end", "marked"), [("🐈🐈 cat", 3, 6, "cat"), ("東京 e\u0301", 0, 2, "東京")]
)
def test_characters_beyond_utf_16_units_are_counted_once(
    engine: Any, text: str, start: int, end: int, marked: str
) -> None:
    pieces = call(engine, "pieces", text, [{"start": start, "end": end}])
    assert [piece["text"] for piece in pieces if piece["spans"]] == [marked]


def test_outer_spans_come_first(engine: Any) -> None:
    inner, outer = {"start": 4, "end": 6}, {"start": 0, "end": 9}
    assert call(engine, "pieces", "Bank of X", [inner, outer])[1] == {"text": " o", "spans": [1, 0], "ending": [0]}


def test_the_largest_share_comes_first_and_nan_last(engine: Any) -> None:
    ranked = call(engine, "ranked", [0.1, None, 0.7, 0.2], ["a", "b"])
    assert [(row["name"], row["value"]) for row in ranked] == [
        ("class 2", 0.7), ("class 3", 0.2), ("a", 0.1), ("b", None),
    ]  # fmt: skip


def test_numbers_that_json_lacks_become_null_outside_of_strings(engine: Any) -> None:
    text = '{"scores": [NaN, -Infinity, Infinity, 0.5], "answer": "NaN \\"Infinity\\""}'
    assert json.loads(engine.eval(f"JSON.stringify(parsed({json.dumps(text)}))")) == {
        "scores": [None, None, None, 0.5],
        "answer": 'NaN "Infinity"',
    }


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0%"), (0.0004, "<0.1%"), (0.1234, "12.3%"), (1, "100.0%"), (None, "not defined")]
)
def test_shares_are_formatted_as_in_reports(engine: Any, value: float | None, words: str) -> None:
    assert call(engine, "percent", value) == words


@pytest.mark.parametrize(
    "kind", [400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, "offline", "late", "numbers"]
)
def test_each_failure_has_words_and_a_next_step(engine: Any, kind: int | str) -> None:
    words = call(engine, "explained", kind, "details")
    assert words["title"].endswith(".") and words["details"] == "details" and words["next"].endswith(".")


STATES = [
    {"version": "3", "state": "END", "status": {"error_message": "truncated"}},
    {"version": "2", "state": "LOADING", "status": {"error_message": ""}},
]


@pytest.mark.parametrize(
    ("states", "version", "words"),
    [
        (STATES, "", "truncated"),
        (STATES, "2", "Version 2 is being loaded"),
        (STATES, "9", "no version 9"),
        ([], "", "no versions"),
    ],
)
def test_the_reason_for_a_missing_version_is_told(engine: Any, states: list[Any], version: str, words: str) -> None:
    assert words in call(engine, "unavailable", states, version)


def test_the_page_is_complete_and_links_to_metrics_only_where_they_are() -> None:
    content = page('/a"<b>')
    assert 'href="/a&#34;&lt;b&gt;"' in content and "Metrics of" not in page(None)
    # Its policy is computed from the one script and the one style.
    assert page_headers(content)["content-security-policy"].count("sha256-") == 2
    for field in ("token", "model", "version"):
        assert f'<label for="{field}">' in content and f'id="{field}"' in content
