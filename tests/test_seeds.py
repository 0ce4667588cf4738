"""What the documents that Keyturn came from show their readers, done with it: only the import line is another.

Each scenario is of our own words, in the style of those documents, plain and streamed, in `tests/seeds/`. `SHOWN` says
which statement of which document a test there stands for; `WAITS` lists what they show and a later issue brings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Statement(NamedTuple):
    """One thing that a document says or shows, and the test that does it."""

    seed: str
    what: str
    test: str


WORKFLOW, RELEASE, PRINCIPLE, REVIEW, DEEP = "000_feee", "001_34a8", "002_fb03", "003_f413", "004_5d38"

SHOWN = [
    Statement(WORKFLOW, "a tool asks always, never or as a callable says", "test_each_tool_asks_in_its_own_way"),
    Statement(WORKFLOW, "a run that waits returns normally, without a final output", "test_a_pause_is_no_error"),
    Statement(WORKFLOW, "a state holds every waiting call and can be stored", "test_a_state_is_kept_in_a_file"),
    Statement(WORKFLOW, "approve lets a call run, reject tells the model", "test_some_are_approved_and_some_not"),
    Statement(WORKFLOW, "always_approve and always_reject decide later calls", "test_a_decision_for_good"),
    Statement(WORKFLOW, "a resume may pause again; a loop goes through all rounds", "test_a_loop_of_decisions"),
    Statement(RELEASE, "the loop over interruptions", "test_a_loop_of_decisions"),
    Statement(RELEASE, "the loop, streamed and drained", "test_a_loop_of_decisions_while_listening"),
    Statement(WORKFLOW, "require_approval in the tool_config of a hosted MCP tool", "test_a_hosted_server_asks"),
    Statement(RELEASE, "HostedMCPTool with require_approval always, never or by tool", "test_a_hosted_server_asks"),
    Statement(RELEASE, "hosted MCP with on_approval_request", "test_a_hosted_server_is_answered_in_line"),
    Statement(RELEASE, "local MCP servers whose tools ask", "test_a_local_server_asks"),
    Statement(RELEASE, "needs_approval=True on a function tool", "test_a_pause_is_no_error"),
    Statement(RELEASE, "needs_approval as an async function", "test_each_tool_asks_in_its_own_way"),
    Statement(RELEASE, "an agent as a tool asks, and its tools too", "test_an_expert_and_its_tools_ask"),
    Statement(RELEASE, "calls inside several agents wait on the one result", "test_two_experts_ask_at_once"),
    Statement(RELEASE, "usage and turns are kept over a pause", "test_usage_and_turns_go_on"),
    Statement(RELEASE, "ids of a conversation at the server stay in step", "test_only_news_goes_to_the_server"),
    Statement(RELEASE, "a memory session with a pause in it", "test_a_session_holds_each_item_once"),
    Statement(RELEASE, "a pause before and after a handoff", "test_a_handoff_between_two_pauses"),
    Statement(
        RELEASE, "a realtime session tells what waits, and takes decisions by id", "test_a_session_tells_what_waits"
    ),
    Statement(PRINCIPLE, "get_interruptions() is empty where nothing waits", "test_nothing_waits_in_a_new_state"),
    Statement(PRINCIPLE, "a rejected call is told, and the model goes on", "test_words_for_the_model"),
    Statement(PRINCIPLE, "decisions add up over rounds and can be asked for", "test_a_context_knows_what_was_decided"),
    Statement(PRINCIPLE, "calls of one reply are decided independently", "test_some_are_approved_and_some_not"),
    Statement(PRINCIPLE, "deciding on a state without a context is a UserError", "test_a_state_that_has_not_run"),
    Statement(REVIEW, "needs_approval of a hand-made FunctionTool", "test_a_hand_made_tool_asks"),
    Statement(REVIEW, "approve_tool and reject_tool on the context", "test_deciding_through_the_context"),
    Statement(REVIEW, "from_json and from_string build the state again", "test_a_state_is_kept_in_a_file"),
    Statement(REVIEW, "a result can be resumed in place of its state", "test_a_result_in_place_of_its_state"),
    Statement(REVIEW, "run_sync takes a state", "test_resuming_without_await"),
    Statement(REVIEW, "a streamed result has a state with the turn in it", "test_usage_and_turns_go_on"),
    Statement(REVIEW, "a streamed resume sends the server nothing twice", "test_only_news_goes_to_the_server"),
    Statement(REVIEW, "a streamed resume keeps to the turn limit", "test_the_turn_limit_holds_over_a_pause"),
    Statement(REVIEW, "after a rejection the model tries something else", "test_words_for_the_model"),
    Statement(DEEP, "create_deep_agent with interrupt_on by tool name", "test_one_is_approved_and_one_denied"),
    Statement(DEEP, "DeferredToolRequests as an output, and its approvals", "test_one_is_approved_and_one_denied"),
    Statement(DEEP, "ToolApproved, ToolDenied, DeferredToolResults", "test_one_is_approved_and_one_denied"),
    Statement(DEEP, "DeepAgentDeps with a StateBackend, and its files", "test_one_is_approved_and_one_denied"),
    Statement(DEEP, "an approval that changes the arguments", "test_an_approval_changes_the_arguments"),
]


class Later(NamedTuple):
    """What a document shows and a later issue brings."""

    seed: str
    what: str
    comes_with: str


WAITS = [
    Later(WORKFLOW, "ShellTool that asks", "shell, apply_patch and computer tools"),
    Later(RELEASE, "ShellTool with an executor, always flags and the commands of an interruption", "shell tools"),
    Later(RELEASE, "apply_patch that asks", "shell, apply_patch and computer tools"),
    Later(DEEP, "an endpoint of the user's own that approves by request id", "server and inbox"),
]


def test_the_table_names_every_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).with_name("seeds").glob("test_*.py")]
    here = re.findall(r"^(?:async )?def (test_\w+)", "\n".join(texts), re.MULTILINE)
    named = {statement.test for statement in SHOWN}
    assert sorted(named) == sorted(here), "each once"
    assert {seed for seed, *_ in (*SHOWN, *WAITS)} == {WORKFLOW, RELEASE, PRINCIPLE, REVIEW, DEEP}
