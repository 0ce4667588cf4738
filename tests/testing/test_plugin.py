"""The pytest plugin as a user meets it: in a project of their own, with nothing but pytest beside it.

What it costs to be loaded everywhere, and what the fixtures and suites do, is tried in a process of its own.
"""

from __future__ import annotations

import ast
import doctest
import sys
from pathlib import Path

import pytest

import keyturn
from keyturn import testing

pytest_plugins = ["pytester"]

SOURCE = str(Path(keyturn.__file__).resolve().parents[1])


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that has Keyturn and no other plugin, whatever is installed here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_PLUGINS", raising=False)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "keyturn.testing.plugin", "-p", "no:cacheprovider", "-q", *options)


FIXTURES = """
import asyncio
from keyturn import Agent, MemoryJournal, Runner, function_tool

@function_tool(needs_approval=True)
def pay(to: str) -> str:
    return f"paid {to}"

def test_a_payment_waits(scripted_model, approve_all, journal):
    from keyturn.testing import function_call

    model = scripted_model([[function_call("pay", {"to": "ada"})], "Done."])
    agent = Agent("payer", model=model, tools=[pay])
    result = Runner.run_sync(agent, "pay ada", journal=journal)
    assert [item.name for item in result.interruptions] == ["pay"]
    assert Runner.run_sync(agent, approve_all(result), journal=journal).final_output == "Done."
    model.assert_done()
    assert isinstance(journal, MemoryJournal)
    assert asyncio.run(journal.head(result.run_id)) > 0

def test_each_test_has_a_journal_of_its_own(journal):
    assert asyncio.run(journal.due()) == []
"""


CHEAP = """
import sys

def test_it_loads_nothing_of_ours_before_it_is_used():
    ours = {name for name in sys.modules if name.split(".")[0] == "keyturn"}
    light = {"keyturn", "keyturn.support", "keyturn.support.lazy", "keyturn.support.missing", "keyturn._version"}
    assert ours <= light | {"keyturn.testing", "keyturn.testing.plugin"}
    assert not {"pydantic", "msgspec", "sqlite3", "pytest_asyncio"} & set(sys.modules)
"""


@pytest.mark.trial
def test_it_is_cheap(project: pytest.Pytester) -> None:
    project.makepyfile(CHEAP)
    run(project).assert_outcomes(passed=1)


SUITE = """
from keyturn.models.base import ModelResponse
from keyturn.testing import ModelSuite, ScriptedModel

class TestMine(ModelSuite):
    def make_model(self, script):
        return ScriptedModel(script)

class Mumbling(ScriptedModel):
    async def get_response(self, *asked, **kept):
        return ModelResponse([{"type": "message", "role": "assistant", "content": "mumble"}])

class TestMumbling(ModelSuite):
    def make_model(self, script):
        return Mumbling(script)
"""


def test_fixtures_are_there_and_suites_need_no_other_plugin_and_say_what_differs(project: pytest.Pytester) -> None:
    project.makepyfile(test_fixtures=FIXTURES, test_suites=SUITE)
    result = run(project, "-k", "journal or payment or Mine or (Mumbling and test_refusal and plain)", "-W", "error")
    result.assert_outcomes(passed=19, failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: assert*mumble*"])


LATE = """
import keyturn.testing.suites.models

pytest_plugins = ["keyturn.testing.plugin"]
"""


@pytest.mark.trial
def test_it_may_come_late(project: pytest.Pytester) -> None:
    project.makeconftest(LATE)
    project.makepyfile("def test_it(scripted_model):\n    assert scripted_model(['hi']).remaining_steps == 1")
    done = project.runpytest_subprocess("-p", "no:cacheprovider", "-q", "-W", "error")
    done.assert_outcomes(passed=1)


def test_a_scripted_model_needs_no_pytest(project: pytest.Pytester) -> None:
    code = "import sys; from keyturn.testing import ScriptedModel; assert 'pytest' not in sys.modules"
    assert project.run(sys.executable, "-c", code).ret == 0


# ------------------------------------------------------------------------------------------ the names of the package

# Names whose example is still to be written, and why.
WITHOUT_EXAMPLE = {"Answer": "the crash sweep's own word, explained beside `Scenario`"}


def test_people_and_type_checkers_see_the_same_names() -> None:
    stub = ast.parse(Path(str(testing.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert sorted(alias.asname or "" for node in imports for alias in node.names) == sorted(testing.__all__)
    assert set(testing.__all__) <= set(dir(testing))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = testing.no_such_name


@pytest.mark.parametrize("name", sorted({*testing.__all__} - {*WITHOUT_EXAMPLE}))
def test_each_name_has_an_example_that_runs(name: str) -> None:
    thing = getattr(testing, name)
    assert getattr(testing, name) is thing
    module = sys.modules[thing.__module__]
    scope = {**vars(module), **{public: getattr(testing, public) for public in testing.__all__}}
    found = [test for test in doctest.DocTestFinder().find(thing, name, module, globs=scope) if test.examples]
    assert any(test.name == name for test in found), f"{name} has no >>> example"
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    for test in found:
        runner.run(test, out=said.append)
    assert not runner.summarize(verbose=False).failed, "".join(said)
