"""Items become messages that alternate; parts become blocks; what cannot be said there is refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core.errors import UserError
from keyturn.models.anthropic.messages import messages
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from tests.playing import user
from tests.table import each


def output(label: str, said: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": label, "output": said}


def told(*items: Any) -> list[Any]:
    return messages(items)[1]


def shape(*items: Any) -> list[tuple[str, list[str]]]:
    return [(message["role"], [block["type"] for block in message["content"]]) for message in told(*items)]


def test_results_follow_their_calls_and_come_first() -> None:
    calls = [function_call("f", call_id="a"), function_call("f", call_id="b")]
    said = shape(user("q"), *calls, output("b", "2"), user("and?"), output("a", "1"), assistant_message("Done."))
    assert said == [
        ("user", ["text"]),
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text"]),
        ("assistant", ["text"]),
    ]


def test_results_are_in_the_order_of_the_calls() -> None:
    calls = [function_call("f", call_id="a"), function_call("f", call_id="b")]
    [_, _, results] = told(user("q"), *calls, output("b", "2"), output("a", "1"))
    assert [(block["tool_use_id"], block["content"]) for block in results["content"]] == [("a", "1"), ("b", "2")]


def test_a_label_used_again_is_another_call() -> None:
    """Labels are the provider's, and some count from one in each reply."""
    turn = [function_call("f", call_id="call_1"), output("call_1", "1")]
    [_, first, one, second, two] = told(user("q"), *turn, function_call("f", call_id="call_1"), output("call_1", "2"))
    ids = [message["content"][0]["id"] for message in (first, second)]
    assert ids == ["call_1", "call_1_2"]
    assert [(m["content"][0]["tool_use_id"], m["content"][0]["content"]) for m in (one, two)] == [
        ("call_1", "1"),
        ("call_1_2", "2"),
    ]


def test_a_call_without_a_result_says_so_and_a_result_without_a_call_is_left_out() -> None:
    [_, _, result] = told(user("q"), output("gone", "x"), function_call("f", call_id="a"))
    assert result["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "No result of this call was recorded.", "is_error": True}
    ]


def test_the_user_begins() -> None:
    assert shape(assistant_message("Hi."), user("q")) == [
        ("user", ["text"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
    ]


def test_instructions_are_taken_out_wherever_they_stand() -> None:
    items = [
        {"role": "developer", "content": "One."},
        user("q"),
        {"role": "system", "content": [{"type": "input_text", "text": "Two."}]},
    ]
    system, said = messages(items)
    assert (system, len(said)) == (["One.", "Two."], 1)


def test_what_says_nothing_is_not_said() -> None:
    assert shape(user("q"), assistant_message(" \n"), user("r")) == [("user", ["text", "text"])]
    assert shape(user("q"), reasoning("only thoughts")) == [("user", ["text"])]


def test_a_refusal_is_told_as_text() -> None:
    assert told(user("q"), refusal("No."))[1]["content"] == [{"type": "text", "text": "No."}]


def test_a_reply_cut_while_it_thought_does_not_end_in_thinking() -> None:
    kept = {"provider_data": {"anthropic": {"type": "thinking", "signature": "s"}}}
    assert shape(user("q"), assistant_message("a"), {**reasoning("t"), **kept}) == [
        ("user", ["text"]),
        ("assistant", ["text"]),
    ]


@each(
    ("part", "block"),
    [
        ({"type": "input_image", "image_url": "data:image/png;base64,aGk="},
         {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}),
        ({"type": "input_image", "image_url": "https://a.example/b.png"},
         {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}),
        ({"type": "input_image", "file_id": "file_1"},
         {"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
        ({"type": "input_file", "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"},
         {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
          "title": "a.pdf"}),
        ({"type": "input_file", "file_data": "aGk=", "filename": "a.txt"},
         {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}, "title": "a.txt"}),
        ({"type": "input_file", "file_url": "https://a.example/b.pdf"},
         {"type": "document", "source": {"type": "url", "url": "https://a.example/b.pdf"}}),
    ],
)  # fmt: skip
def test_parts_of_the_user_and_of_results(part: Any, block: Any) -> None:
    assert told({"role": "user", "content": [part]})[0]["content"] == [block]
    result = told(user("q"), function_call("f", call_id="a"), output("a", [part]))[2]["content"][0]
    assert result["content"] == [block]


@pytest.mark.each
@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "input_audio", "input_audio": {}}, "not a part of type 'input_audio'"),
        ({"type": "input_image"}, "needs its data, an address or a file id"),
        ({"type": "input_image", "image_url": "data:image/png,raw"}, "must be base64"),
        ({"type": "input_file", "file_data": "a", "filename": "a.txt"}, "not base64"),
    ],
)
def test_what_cannot_be_said_is_refused(part: Any, why: str) -> None:
    with pytest.raises(UserError, match=why):
        told({"role": "user", "content": [part]})


@pytest.mark.parametrize("kind", ["item_reference", "compaction"])
def test_what_only_its_maker_can_read_is_not_forgotten_in_silence(kind: str) -> None:
    with pytest.raises(UserError, match=kind):
        told(user("q"), {"type": kind, "id": "x"})


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"to": "ada"}', {"to": "ada"}),
        ("", {}),
        ('{"to": ', {"INVALID_JSON": '{"to": '}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ('{"n": 1e999}', {"INVALID_JSON": '{"n": 1e999}'}),
    ],
)
def test_arguments_are_an_object_or_shown_as_written(arguments: str, sent: Any) -> None:
    assert told(user("q"), function_call("f", arguments, call_id="a"))[1]["content"][0]["input"] == sent


def test_another_kind_of_call_is_told_by_what_it_did() -> None:
    call = {"type": "shell_call", "id": "sc_1", "call_id": "a", "action": {"commands": ["ls"]}, "status": "completed"}
    result = {"type": "shell_call_output", "call_id": "a", "output": [{"stdout": "x", "stderr": ""}]}
    [_, said, done] = told(user("q"), call, result)
    assert said["content"][0] == {
        "type": "tool_use",
        "id": "a",
        "name": "shell",
        "input": {"action": {"commands": ["ls"]}},
    }
    assert done["content"][0]["content"] == [{"type": "text", "text": '[{"stdout": "x", "stderr": ""}]'}]


def test_other_providers_blocks_are_not_told() -> None:
    google = {"provider_data": {"google": {"thought_signature": "s"}}}
    openai = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    assert shape(user("q"), {**reasoning("t"), **google}, openai, assistant_message("a")) == [
        ("user", ["text"]),
        ("assistant", ["text"]),
    ]


def test_empty_outputs_are_results_all_the_same() -> None:
    [_, _, results] = told(user("q"), function_call("f", call_id="a"), output("a", ""))
    assert results["content"] == [{"type": "tool_result", "tool_use_id": "a"}]
