"""One item of each type that the Responses API gives, with fields that are rarely set, and some that nobody knows yet.

Only data: which of it is kept, and how, is tested elsewhere.
"""

from __future__ import annotations

from typing import Any

SEALED = "gAAAAABo" + "+/aZ09_-" * 40 + "=="

CALLER = {"type": "program", "caller_id": "prog_1"}
SEARCH_TOOL = {"type": "function", "name": "pay", "parameters": {"type": "object"}, "strict": True, "description": "x"}

KNOWN: list[dict[str, Any]] = [
    {
        "type": "message",
        "id": "msg_a",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [
            {
                "type": "output_text",
                "text": "It is 21° in 東京.\n",
                "annotations": [
                    {
                        "type": "url_citation",
                        "url": "https://example.com",
                        "title": "t",
                        "start_index": 0,
                        "end_index": 5,
                    }
                ],
                "logprobs": [{"token": "It", "bytes": [73, 116], "logprob": -0.25, "top_logprobs": []}],
            },
            {"type": "refusal", "refusal": "Not that."},
        ],
    },
    {
        "type": "file_search_call",
        "id": "fs_a",
        "queries": ["q"],
        "status": "completed",
        "results": [
            {
                "file_id": "f",
                "filename": "a.txt",
                "score": 0.5,
                "text": "x",
                "attributes": {"a": 1.5, "b": True, "c": "d"},
            }
        ],
    },
    {
        "type": "function_call",
        "id": "fc_a",
        "call_id": "call_a",
        "name": "wire",
        "arguments": '{"to": "ada", "to2": [1,2 ]}',
        "status": "completed",
        "namespace": "bank",
        "caller": CALLER,
        "async": True,
    },
    {
        "type": "function_call_output",
        "id": "fco_a",
        "call_id": "call_a",
        "output": [{"type": "input_text", "text": "paid"}],
        "status": "completed",
        "created_by": "someone",
    },
    {
        "type": "web_search_call",
        "id": "ws_a",
        "status": "completed",
        "action": {
            "type": "search",
            "query": "q",
            "queries": ["q"],
            "sources": [{"type": "url", "url": "https://e.com"}],
        },
    },
    {
        "type": "computer_call",
        "id": "cu_a",
        "call_id": "call_b",
        "status": "completed",
        "action": {"type": "click", "button": "left", "x": 1, "y": 2, "keys": None},
        "pending_safety_checks": [{"id": "sc", "code": "malicious", "message": "careful"}],
    },
    {
        "type": "computer_call_output",
        "id": "cuo_a",
        "call_id": "call_b",
        "status": "completed",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGk="},
        "acknowledged_safety_checks": [{"id": "sc", "code": "c", "message": "m"}],
        "created_by": "someone",
    },
    {
        "type": "reasoning",
        "id": "rs_a",
        "summary": [{"type": "summary_text", "text": "**Thinking**"}],
        "content": [{"type": "reasoning_text", "text": "hm"}],
        "encrypted_content": SEALED,
        "status": "completed",
    },
    {"type": "program", "id": "prog_1", "call_id": "call_c", "code": "pay()", "fingerprint": "fp=="},
    {"type": "program_output", "id": "po_a", "call_id": "call_c", "result": "1", "status": "completed"},
    {
        "type": "tool_search_call",
        "id": "tsc_a",
        "call_id": None,
        "execution": "server",
        "arguments": {"paths": ["bank"]},
        "status": "completed",
        "created_by": "someone",
    },
    {
        "type": "tool_search_output",
        "id": "tso_a",
        "call_id": None,
        "execution": "server",
        "tools": [SEARCH_TOOL],
        "status": "completed",
        "created_by": "someone",
    },
    {"type": "additional_tools", "id": "at_a", "role": "developer", "tools": [SEARCH_TOOL]},
    {"type": "compaction", "id": "cmp_a", "encrypted_content": SEALED, "created_by": "someone"},
    {
        "type": "image_generation_call",
        "id": "ig_a",
        "status": "completed",
        "result": "iVBORw0KGgo=",
        "revised_prompt": "a cat",
        "size": "1024x1024",
        "output_format": "png",
    },
    {
        "type": "code_interpreter_call",
        "id": "ci_a",
        "code": "1 + 1",
        "container_id": "cntr_a",
        "outputs": [{"type": "logs", "logs": "2"}, {"type": "image", "url": "https://example.com/a.png"}],
        "status": "completed",
    },
    {
        "type": "local_shell_call",
        "id": "lsh_a",
        "call_id": "call_d",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls", "-l"], "env": {"A": "b"}, "timeout_ms": 5, "user": None},
    },
    {"type": "local_shell_call_output", "id": "call_d", "output": '{"stdout": ""}', "status": "completed"},
    {
        "type": "shell_call",
        "id": "sh_a",
        "call_id": "call_e",
        "status": "completed",
        "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": 4096},
        "environment": {"type": "container_reference", "container_id": "cntr_a"},
        "caller": {"type": "direct"},
        "created_by": "someone",
    },
    {
        "type": "shell_call_output",
        "id": "sho_a",
        "call_id": "call_e",
        "status": "completed",
        "max_output_length": 4096,
        "output": [{"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}, "created_by": "s"}],
        "created_by": "someone",
    },
    {
        "type": "apply_patch_call",
        "id": "apc_a",
        "call_id": "call_f",
        "status": "completed",
        "operation": {"type": "update_file", "path": "a.txt", "diff": "@@\n-a\n+b\n"},
        "created_by": "someone",
    },
    {
        "type": "apply_patch_call_output",
        "id": "apco_a",
        "call_id": "call_f",
        "status": "completed",
        "output": "ok",
        "created_by": "someone",
    },
    {
        "type": "mcp_call",
        "id": "mcp_a",
        "name": "read",
        "arguments": "{}",
        "server_label": "files",
        "approval_request_id": "mcpr_a",
        "error": None,
        "output": "text",
        "status": "completed",
    },
    {
        "type": "mcp_list_tools",
        "id": "mcpl_a",
        "server_label": "files",
        "tools": [{"name": "read", "input_schema": {"type": "object", "x-y": [1]}, "annotations": {"readOnly": True}}],
        "error": None,
    },
    {"type": "mcp_approval_request", "id": "mcpr_a", "name": "read", "arguments": "{}", "server_label": "files"},
    {"type": "mcp_approval_response", "id": "mcpa_a", "approval_request_id": "mcpr_a", "approve": True, "reason": "ok"},
    {
        "type": "custom_tool_call",
        "id": "ctc_a",
        "call_id": "call_g",
        "name": "sql",
        "input": "select 'a'",
        "async": False,
    },
    {
        "type": "custom_tool_call_output",
        "id": "ctco_a",
        "call_id": "call_g",
        "output": "a",
        "status": "completed",
        "created_by": "someone",
    },
]

UNKNOWN: list[dict[str, Any]] = [
    {
        "type": "telepathy_call",
        "id": "tp_a",
        "deep": {"list": [1, 2.5, None, {"a": "é"}]},
        "content": "no list",
        "role": 7,
    },
    {"type": "telepathy_result", "output": [[[]]], "status": None},
    {
        "type": "function_call",
        "id": "fc_z",
        "call_id": "call_z",
        "name": "pay",
        "arguments": "{}",
        "mood": {"good": True},
    },
    {
        "type": "message",
        "id": "msg_z",
        "role": "assistant",
        "status": "pondering",
        "content": [
            {"type": "output_hologram", "voxels": [[0, 1]], "text": None},
            {
                "type": "output_text",
                "text": "x",
                "annotations": [{"type": "sketch_citation", "at": [1]}],
                "tone": "dry",
            },
        ],
        "mood": None,
    },
    {"type": "reasoning", "id": "rs_z", "summary": [{"type": "picture", "url": "u"}], "encrypted_content": None},
]
