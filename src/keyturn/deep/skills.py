"""Skills: folders of instructions that the agent is told of by name, and reads when it needs one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import UserError
from ..tools.base import Prepared, Tool, ToolProblem
from ..tools.filesystem.problems import FileProblem
from ..tools.filesystem.workspace import Workspace
from ..tools.function import function_tool
from ..tools.function_tool import FunctionTool
from ..tools.functions.bound import BoundFunction, default_tool_error_function
from ..tools.functions.path_arguments import plain_path, with_paths
from ..tools.functions.schema import function_schema

_FILE = "SKILL.md"
_MOST_LISTED = 50


@dataclass(frozen=True)
class Skill:
    """Describes one skill: a folder with a SKILL.md, which begins with its name and what it is for."""

    name: str
    description: str
    text: str
    files: Workspace


def found_skills(folders: Iterable[str | os.PathLike[str]]) -> dict[str, Skill]:
    """Find the skills: each folder is one itself, or holds one in each of its folders."""
    found: dict[str, Skill] = {}
    for folder in folders:
        here = Workspace(folder)
        names = [entry.name for entry in here.entries() if entry.kind == "directory"]
        places = [folder] if _has(here, _FILE) else [os.path.join(folder, name) for name in names]
        made = [skill for place in places if (skill := _skill(place)) is not None]
        if not made:
            raise UserError(f"there is no skill in {str(folder)!r}: a skill is a folder with a {_FILE}")
        for skill in made:
            if skill.name in found:
                raise UserError(
                    f"two skills are named {skill.name!r}: {found[skill.name].files.root} and {skill.files.root}"
                )
            found[skill.name] = skill
    return found


def _has(files: Workspace, path: str) -> bool:
    try:
        return files.look(path) is not None
    except FileProblem:
        return False


def _skill(place: str | os.PathLike[str]) -> Skill | None:
    files = Workspace(place)
    if not _has(files, _FILE):
        return None
    head, text = _parted(files.read(_FILE).text)
    name = head.get("name") or os.path.basename(files.root)
    if not head.get("description"):
        raise UserError(
            f"the skill in {files.root} has no description: begin its {_FILE} with '---', 'description: ...'"
        )
    return Skill(name, head["description"], text, files)


def _parted(text: str) -> tuple[dict[str, str], str]:
    """Split a SKILL.md into the fields between its first two rows of dashes, and the rest."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}, text
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        return {}, text
    fields = [line.partition(":") for line in lines[1:end] if ":" in line]
    return {name.strip(): value.strip().strip("\"'") for name, _, value in fields}, "\n".join(lines[end + 1 :]).strip()


def listed_skills(skills: dict[str, Skill]) -> str:
    """Return what the agent is told of its skills in its instructions."""
    listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills.values())
    return f"## Skills\n\nBefore you do what a skill is for, read it with load_skill.\n{listed}"


def skill_tools(skills: dict[str, Skill]) -> list[Tool]:
    """Make the tools that read skills."""

    def named(name: str) -> Skill:
        if name not in skills:
            raise ToolProblem(f"There is no skill {name!r}; there are {', '.join(skills)}.")
        return skills[name]

    @function_tool(read_only=True)
    def load_skill(name: str) -> str:
        """Read a skill: what to do, and which files go with it.

        Args:
            name: The skill's name.
        """
        skill = named(name)
        files = [entry.name for entry in skill.files.entries() if entry.kind == "file" and entry.name != _FILE]
        more = f"\n\nFiles: {', '.join(files[:_MOST_LISTED])}" if files else ""
        return skill.text + more

    def read_skill_resource(name: str, path: str) -> str:
        """Read a file that goes with a skill.

        Args:
            name: The skill's name.
            path: The file, relative to the skill's folder.
        """
        return named(name).files.read(path).text

    return [load_skill, SkillReader(read_skill_resource)]


class SkillReader(FunctionTool):
    """Reads a file of a skill, by its path in the one spelling that it has."""

    def __init__(self, function: Callable[..., Any]) -> None:
        schema = function_schema(function)
        bound = BoundFunction(function, schema, default_tool_error_function)
        super().__init__(schema.name, schema.description, schema.params_json_schema, bound, read_only=True)

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the arguments, with the path as it will be opened."""
        prepared = super().prepare(item)
        return with_paths(prepared, {"path": plain_path(prepared.params["path"])})
