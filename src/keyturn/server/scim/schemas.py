"""Describe to clients what is kept here of users and groups, and which parts of SCIM are served (RFC 7643, 5 to 7)."""

from __future__ import annotations

from typing import Any

from .resources import GROUP, USER

MOST_RESULTS = 200
_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema"
_TYPE = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
_CONFIG = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"


def _attribute(name: str, kind: str, what: str, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": name,
        "type": kind,
        "multiValued": False,
        "description": what,
        "required": False,
        "mutability": "readWrite",
        "returned": "default",
    }
    if kind in ("string", "reference"):
        plain |= {"caseExact": False, "uniqueness": "none"}
    return plain | more


_REFERENCES = [
    _attribute("value", "string", "The id.", mutability="immutable", caseExact=True),
    _attribute("display", "string", "The name.", mutability="readOnly"),
]


def _reference(kind: str) -> dict[str, Any]:
    what = "The address of the resource."
    return _attribute("$ref", "reference", what, mutability="immutable", caseExact=True, referenceTypes=[kind])


_OF_USERS = [
    _attribute(
        "userName",
        "string",
        "The id of the user, which is permanent.",
        required=True,
        mutability="immutable",
        uniqueness="server",
    ),
    _attribute("displayName", "string", "The name that is shown."),
    _attribute(
        "active", "boolean", "Whether the user may sign in: deactivation ends all that they hold.", required=True
    ),
    _attribute(
        "groups",
        "complex",
        "The groups of this client that the user is in.",
        multiValued=True,
        mutability="readOnly",
        subAttributes=[
            *({**each, "mutability": "readOnly"} for each in (*_REFERENCES, _reference("Group"))),
            _attribute("type", "string", "How.", mutability="readOnly", canonicalValues=["direct"]),
        ],
    ),
]
_OF_GROUPS = [
    _attribute(
        "displayName",
        "string",
        "The name of the group, which is permanent. Administrators give it roles.",
        required=True,
        mutability="immutable",
        uniqueness="server",
    ),
    _attribute(
        "members",
        "complex",
        "The users in the group.",
        multiValued=True,
        subAttributes=[
            _REFERENCES[0],
            _reference("User"),
            _attribute("type", "string", "User.", mutability="immutable", canonicalValues=["User"]),
        ],
    ),
]
SCHEMAS: list[dict[str, Any]] = [
    {"schemas": [_SCHEMA], "id": USER, "name": "User", "description": "A user", "attributes": _OF_USERS},
    {"schemas": [_SCHEMA], "id": GROUP, "name": "Group", "description": "A group", "attributes": _OF_GROUPS},
]
RESOURCE_TYPES: list[dict[str, Any]] = [
    {"schemas": [_TYPE], "id": name, "name": name, "endpoint": f"/{name}s", "description": name, "schema": schema}
    for name, schema in (("User", USER), ("Group", GROUP))
]
CONFIG: dict[str, Any] = {
    "schemas": [_CONFIG],
    "patch": {"supported": True},
    "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
    "filter": {"supported": True, "maxResults": MOST_RESULTS},
    "changePassword": {"supported": False},
    "sort": {"supported": False},
    "etag": {"supported": False},
    "authenticationSchemes": [
        {
            "type": "oauthbearertoken",
            "name": "Bearer token",
            "description": "A token of the scope scim: keyturn users token NAME --scope scim",
            "specUri": "https://www.rfc-editor.org/rfc/rfc6750",
            "primary": True,
        }
    ],
}


def placed(resource: dict[str, Any], kind: str, where: str) -> dict[str, Any]:
    """Return a resource with where it is."""
    return resource | {"meta": {"resourceType": kind, "location": where}}
