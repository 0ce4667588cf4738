"""opencode, which has plugins and no hooks: the plugin that is written starts the hook, and throws unless it allows.

Written by its documentation. The plugin is a file of its own, and what it is answered is in words of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .hooks_json import BadSettings
from .host import HookAnswer, HookCall, HookHost, call_of

_EVENT = "tool.execute.before"
_OURS = "// keyturn hook: written by `keyturn hook install opencode`, and replaced by it"
_PLUGIN = """\
%(ours)s
import { spawn } from "node:child_process"

const command = %(command)s
const tools = new RegExp(%(tools)s)

const ran = (text) =>
  new Promise((resolve, reject) => {
    const hook = spawn("sh", ["-c", command], { stdio: ["pipe", "pipe", "pipe"] })
    const end = setTimeout(() => hook.kill("SIGTERM"), %(seconds)d * 1000)
    const read = { stdout: "", stderr: "" }
    for (const name of ["stdout", "stderr"])
      hook[name].setEncoding("utf8").on("data", (chunk) => (read[name] += chunk)) // a character may be in two chunks
    hook.on("error", reject)
    hook.on("close", (code) => {
      clearTimeout(end)
      if (code === 0) resolve(read.stdout)
      else reject(new Error(read.stderr.trim() || "keyturn: no decision was made"))
    })
    hook.stdin.on("error", () => {})
    hook.stdin.end(text)
  })

export const Keyturn = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    if (!tools.test(input.tool)) return
    const sent = {
      hook_event_name: "tool.execute.before",
      session_id: input.sessionID,
      tool_use_id: input.callID,
      tool_name: input.tool,
      tool_input: output.args,
      cwd: directory,
    }
    const answer = JSON.parse(await ran(JSON.stringify(sent)))
    if (answer.decision !== "allow") throw new Error(answer.reason || "keyturn: not approved")
    if (answer.args === undefined) return
    for (const name of Object.keys(output.args)) delete output.args[name]
    Object.assign(output.args, answer.args)
  },
})
"""


def _read(sent: Mapping[str, Any]) -> HookCall | None:
    return call_of(sent) if sent.get("hook_event_name") == _EVENT else None


def _allow(_call: HookCall, edited: dict[str, Any] | None) -> HookAnswer:
    changed = {} if edited is None else {"args": edited}
    return HookAnswer(json.dumps({"decision": "allow", **changed}, ensure_ascii=False))


def _deny(_call: HookCall, reason: str) -> HookAnswer:
    return HookAnswer(json.dumps({"decision": "deny", "reason": reason}, ensure_ascii=False))


def _edits(_event: str) -> bool:
    return True


def _installed(text: str, command: str, seconds: int, must: str) -> str:
    if text.strip() and not text.startswith(_OURS):
        raise BadSettings("it is another plugin")
    if not command:
        return ""
    tools = f"^(?:{must})$" if must else ""
    words = {"ours": _OURS, "command": json.dumps(command), "tools": json.dumps(tools), "seconds": seconds}
    return _PLUGIN % words


def _lines(text: str) -> list[str]:
    if not text.startswith(_OURS):
        return []
    lead = "const command = "
    return [f"{_EVENT}: {json.loads(line[len(lead) :])}" for line in text.splitlines() if line.startswith(lead)]


HOST = HookHost(
    "opencode", "opencode", "", ".config/opencode/plugins/keyturn.js", _read, _allow, _deny, _edits,
    _installed, _lines, _EVENT, ".opencode/plugins/keyturn.js",
)  # fmt: skip
