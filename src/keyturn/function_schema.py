"""A path of the OpenAI Agents SDK: the schema of a function. It defines nothing."""

from __future__ import annotations

from ._missing import speaks
from .tools.functions.docstrings import DocstringStyle as DocstringStyle
from .tools.functions.schema import FunctionSchema as FunctionSchema
from .tools.functions.schema import function_schema as function_schema

FuncSchema = FunctionSchema

speaks(__name__)
