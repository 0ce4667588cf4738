"""Items become contents of parts; what cannot be said there is refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core.errors import UserError
from keyturn.models.google.contents import contents
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.models.turns import with_own

USER = {"role": "user", "content": "q"}


def output(label: str, said: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": label, "output": said}


def told(*items: Any, model: str = "gemini-3-flash") -> list[Any]:
    return contents(items, model)[1]


def mine(item: Any, **kept: Any) -> Any:
    return with_own(item, "google", kept) if kept else {**item, "provider_data": {"google": {}}}


def test_as_many_results_as_calls_in_their_order_in_a_content_of_their_own() -> None:
    calls = [mine(function_call("f", {"n": n}, call_id=label)) for n, label in enumerate("ab")]
    said = told(USER, *calls, output("b", "2"), {"role": "user", "content": "and?"})
    assert [(content["role"], [*(next(iter(part)) for part in content["parts"])]) for content in said] == [
        ("user", ["text"]),
        ("model", ["function_call", "function_call"]),
        ("user", ["function_response", "function_response"]),
        ("user", ["text"]),
    ]
    assert [part["function_response"]["response"] for part in said[2]["parts"]] == [
        {"error": "No result of this call was recorded."},
        {"output": "2"},
    ]


def test_signatures_and_ids_are_sent_back_on_their_part() -> None:
    call = mine(function_call("f", call_id="gemini_call_1"), thought_signature="c2ln")
    given = mine(function_call("f", call_id="fc-1"), id="fc-1")
    thought = mine(reasoning("Hm."), thought_signature="dGhv")
    text = mine(assistant_message("a"), parts=[{"thought_signature": "dGV4"}])
    _, said, results = told(USER, thought, text, call, given, output("fc-1", "x"), output("gemini_call_1", "y"))
    assert said["parts"] == [
        {"text": "Hm.", "thought": True, "thought_signature": "dGhv"},
        {"text": "a", "thought_signature": "dGV4"},
        {"function_call": {"name": "f", "args": {}}, "thought_signature": "c2ln"},
        {"function_call": {"name": "f", "args": {}, "id": "fc-1"}},
    ]
    assert [part["function_response"].get("id") for part in results["parts"]] == [None, "fc-1"]


def test_a_thought_is_told_to_who_thought_it() -> None:
    """Unsigned summaries are for people: the model has no use for them."""
    foreign = {**reasoning("x"), "provider_data": {"anthropic": {"type": "thinking", "signature": "s"}}}
    assert told(USER, foreign, reasoning("y"), assistant_message("a"))[1]["parts"] == [{"text": "a"}]


def test_the_user_begins() -> None:
    assert [content["role"] for content in told(mine(function_call("f", call_id="a")), output("a", "x"))] == [
        "user",
        "model",
        "user",
    ]


def test_instructions_are_taken_out_wherever_they_stand() -> None:
    system, said = contents([USER, {"role": "developer", "content": "One."}], "m")
    assert (system, len(said)) == (["One."], 1)


def test_a_refusal_is_told_as_text() -> None:
    assert told(USER, refusal("No."))[1]["parts"] == [{"text": "No."}]


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}


@pytest.mark.each
@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (IMAGE, {"inline_data": {"mime_type": "image/png", "data": "aGk="}}),
        ({"type": "input_image", "image_url": {"url": "https://a.example/b.jpg"}},
         {"file_data": {"file_uri": "https://a.example/b.jpg", "mime_type": "image/jpeg"}}),
        ({"type": "input_file", "file_data": "aGk=", "filename": "a.txt"},
         {"inline_data": {"mime_type": "text/plain", "data": "aGk="}}),
        ({"type": "input_file", "file_id": "files/1"},
         {"file_data": {"file_uri": "files/1", "mime_type": "application/pdf"}}),
        ({"type": "input_audio", "input_audio": {"format": "wav", "data": "aGk="}},
         {"inline_data": {"mime_type": "audio/wav", "data": "aGk="}}),
    ],
)  # fmt: skip
def test_parts_of_the_user(part: Any, sent: Any) -> None:
    assert told({"role": "user", "content": [part]})[0]["parts"] == [sent]


def test_media_of_a_result() -> None:
    """Models before 3 take them only behind the results."""
    items = [USER, mine(function_call("f", call_id="a")), output("a", [{"type": "input_text", "text": "see"}, IMAGE])]
    media = {"inline_data": {"mime_type": "image/png", "data": "aGk="}}
    result = {"name": "f", "response": {"output": "see"}}
    assert told(*items)[2:] == [{"role": "user", "parts": [{"function_response": {**result, "parts": [media]}}]}]
    assert told(*items, model="gemini-2.5-pro")[2:] == [
        {"role": "user", "parts": [{"function_response": result}]},
        {"role": "user", "parts": [media]},
    ]


@pytest.mark.each
@pytest.mark.parametrize("part", [{"type": "input_video"}, {"type": "input_image"}, {"type": "input_file"}])
def test_what_cannot_be_said_is_refused(part: Any) -> None:
    with pytest.raises(UserError, match="input_"):
        told({"role": "user", "content": [part]})
