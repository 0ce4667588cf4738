"""The plugin of opencode runs what its hook allows, with the arguments that it was given, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from keyturn.hooks.hooks_json import BadSettings
from keyturn.hooks.hosts import host_named
from keyturn.hooks.installing import install, uninstall

PLUGGED = """
import { pathToFileURL } from "node:url"
const { Keyturn } = await import(pathToFileURL(process.argv[2]))
const before = (await Keyturn({ directory: "/srv/app" }))["tool.execute.before"]
for (const tool of ["bash", "read"]) {
  const output = { args: { command: "ls", timeout: 5 } }
  try {
    await before({ tool, sessionID: "s1", callID: "c1" }, output)
    console.log(tool, "runs", JSON.stringify(output.args))
  } catch (error) {
    console.log(tool, "blocked", error.message)
  }
}
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_plugin_of_opencode_runs_what_its_hook_allows_and_nothing_else(tmp_path: Path) -> None:
    host = host_named("opencode")
    path = tmp_path / "keyturn.mjs"
    (tmp_path / "try.mjs").write_text(PLUGGED)

    def tried(hook: str) -> list[str]:
        path.write_text(host.installed("", hook, 30, "bash|write"))
        assert host.lines(path.read_text()) == [f"tool.execute.before: {hook}"]
        made = subprocess.run(
            ["node", str(tmp_path / "try.mjs"), str(path)], capture_output=True, text=True, timeout=60, check=True
        )
        return made.stdout.splitlines()

    free = 'read runs {"command":"ls","timeout":5}'
    sees = """case $(cat) in *'"session_id":"s1","tool_use_id":"c1","tool_name":"bash"'*) echo '%s';; esac"""
    assert tried(sees % '{"decision": "allow"}') == ['bash runs {"command":"ls","timeout":5}', free]
    assert tried(sees % '{"decision": "allow", "args": {"command": "pwd"}}') == ['bash runs {"command":"pwd"}', free]
    long = {"a": "€" * 100_000}  # which no pipe holds at once, and of which a part ends within a character
    answer = tmp_path / "answer"
    answer.write_text(json.dumps({"decision": "allow", "args": long}, ensure_ascii=False), encoding="utf-8")
    assert tried(f"cat {answer}")[0] == f'bash runs {{"a":"{long["a"]}"}}'
    assert tried(sees % '{"decision": "deny", "reason": "no"}') == ["bash blocked no", free]
    for broken, why in (("echo late >&2; exit 2", "late"), ("exit 1", "keyturn: no decision"), ("no-such-program", "")):
        assert tried(broken)[0].startswith(f"bash blocked {why}"), broken
    assert tried("true")[0].startswith("bash blocked")
    mine = "export const Mine = 1"
    with pytest.raises(BadSettings):
        host.installed(mine, "keyturn hook opencode", 30, "")
    install(host, path, 60, "")
    uninstall(host, path)
    assert not path.exists()
