"""Where a shell's commands run, as the Responses API is told of it: the dicts for `ShellTool(environment=...)`."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class ShellToolLocalSkill(TypedDict):
    """A folder of instructions on this machine that the model may read.

    >>> ShellToolLocalSkill(name="csv", description="Reads CSV files.", path="skills/csv")["name"]
    'csv'
    """

    name: str
    description: str
    path: str


class ShellToolSkillReference(TypedDict):
    """A skill that the provider keeps.

    >>> ShellToolSkillReference(type="skill_reference", skill_id="skill_1")["skill_id"]
    'skill_1'
    """

    type: Literal["skill_reference"]
    skill_id: str
    version: NotRequired[str]


class ShellToolInlineSkillSource(TypedDict):
    """A skill's files, zipped and in base64.

    >>> ShellToolInlineSkillSource(type="base64", media_type="application/zip", data="UEsFBg==")["type"]
    'base64'
    """

    type: Literal["base64"]
    media_type: Literal["application/zip"]
    data: str


class ShellToolInlineSkill(TypedDict):
    """A skill that goes along with the request.

    >>> source = ShellToolInlineSkillSource(type="base64", media_type="application/zip", data="UEsFBg==")
    >>> ShellToolInlineSkill(type="inline", name="csv", description="Reads CSV files.", source=source)["name"]
    'csv'
    """

    type: Literal["inline"]
    name: str
    description: str
    source: ShellToolInlineSkillSource


ShellToolContainerSkill = ShellToolSkillReference | ShellToolInlineSkill


class ShellToolContainerNetworkPolicyDomainSecret(TypedDict):
    """A secret that a container may send to one domain.

    >>> ShellToolContainerNetworkPolicyDomainSecret(domain="example.com", name="TOKEN", value="x")["domain"]
    'example.com'
    """

    domain: str
    name: str
    value: str


class ShellToolContainerNetworkPolicyAllowlist(TypedDict):
    """A container may reach these domains and no others.

    >>> ShellToolContainerNetworkPolicyAllowlist(type="allowlist", allowed_domains=["example.com"])["type"]
    'allowlist'
    """

    type: Literal["allowlist"]
    allowed_domains: list[str]
    domain_secrets: NotRequired[list[ShellToolContainerNetworkPolicyDomainSecret]]


class ShellToolContainerNetworkPolicyDisabled(TypedDict):
    """A container reaches no network.

    >>> ShellToolContainerNetworkPolicyDisabled(type="disabled")["type"]
    'disabled'
    """

    type: Literal["disabled"]


ShellToolContainerNetworkPolicy = ShellToolContainerNetworkPolicyAllowlist | ShellToolContainerNetworkPolicyDisabled


class ShellToolLocalEnvironment(TypedDict):
    """Commands run through the tool's executor, and people are asked.

    >>> from keyturn import ShellTool
    >>> ShellTool(lambda request: "", environment=ShellToolLocalEnvironment(type="local")).hosted
    False
    """

    type: Literal["local"]
    skills: NotRequired[list[ShellToolLocalSkill]]


class ShellToolContainerAutoEnvironment(TypedDict):
    """Commands run in a container of the provider, which it makes; nobody can be asked.

    >>> from keyturn import ShellTool
    >>> ShellTool(environment=ShellToolContainerAutoEnvironment(type="container_auto", memory_limit="4g")).hosted
    True
    """

    type: Literal["container_auto"]
    file_ids: NotRequired[list[str]]
    memory_limit: NotRequired[Literal["1g", "4g", "16g", "64g"] | None]
    network_policy: NotRequired[ShellToolContainerNetworkPolicy]
    skills: NotRequired[list[ShellToolContainerSkill]]


class ShellToolContainerReferenceEnvironment(TypedDict):
    """Commands run in a container of the provider that is there already; nobody can be asked.

    >>> from keyturn import ShellTool
    >>> there = ShellToolContainerReferenceEnvironment(type="container_reference", container_id="cntr_1")
    >>> ShellTool(environment=there).hosted
    True
    """

    type: Literal["container_reference"]
    container_id: str


ShellToolHostedEnvironment = ShellToolContainerAutoEnvironment | ShellToolContainerReferenceEnvironment
ShellToolEnvironment = ShellToolLocalEnvironment | ShellToolHostedEnvironment
