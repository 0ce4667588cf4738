"""Re-export the schema of a function under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .support.missing import speaks
from .tools.functions.docstrings import DocstringStyle as DocstringStyle
from .tools.functions.schema import FunctionSchema as FunctionSchema
from .tools.functions.schema import function_schema as function_schema

FuncSchema = FunctionSchema

speaks(__name__)
