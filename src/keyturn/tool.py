"""Re-export tools and what belongs to them under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import ApplyPatchTool as ApplyPatchTool
from . import CodeInterpreterTool as CodeInterpreterTool
from . import ComputerTool as ComputerTool
from . import ComputerToolSafetyCheckData as ComputerToolSafetyCheckData
from . import CustomTool as CustomTool
from . import FileSearchTool as FileSearchTool
from . import FunctionTool as FunctionTool
from . import FunctionToolResult as FunctionToolResult
from . import HostedMCPTool as HostedMCPTool
from . import ImageGenerationTool as ImageGenerationTool
from . import ImageGenerationToolConfig as ImageGenerationToolConfig
from . import LocalShellCommandRequest as LocalShellCommandRequest
from . import LocalShellExecutor as LocalShellExecutor
from . import LocalShellTool as LocalShellTool
from . import MCPToolApprovalFunction as MCPToolApprovalFunction
from . import MCPToolApprovalFunctionResult as MCPToolApprovalFunctionResult
from . import MCPToolApprovalRequest as MCPToolApprovalRequest
from . import ShellActionRequest as ShellActionRequest
from . import ShellCallData as ShellCallData
from . import ShellCallOutcome as ShellCallOutcome
from . import ShellCommandOutput as ShellCommandOutput
from . import ShellCommandRequest as ShellCommandRequest
from . import ShellExecutor as ShellExecutor
from . import ShellOnApprovalFunctionResult as ShellOnApprovalFunctionResult
from . import ShellResult as ShellResult
from . import ShellTool as ShellTool
from . import ShellToolContainerAutoEnvironment as ShellToolContainerAutoEnvironment
from . import ShellToolContainerNetworkPolicy as ShellToolContainerNetworkPolicy
from . import ShellToolContainerNetworkPolicyAllowlist as ShellToolContainerNetworkPolicyAllowlist
from . import ShellToolContainerNetworkPolicyDisabled as ShellToolContainerNetworkPolicyDisabled
from . import ShellToolContainerNetworkPolicyDomainSecret as ShellToolContainerNetworkPolicyDomainSecret
from . import ShellToolContainerReferenceEnvironment as ShellToolContainerReferenceEnvironment
from . import ShellToolContainerSkill as ShellToolContainerSkill
from . import ShellToolEnvironment as ShellToolEnvironment
from . import ShellToolHostedEnvironment as ShellToolHostedEnvironment
from . import ShellToolInlineSkill as ShellToolInlineSkill
from . import ShellToolInlineSkillSource as ShellToolInlineSkillSource
from . import ShellToolLocalEnvironment as ShellToolLocalEnvironment
from . import ShellToolLocalSkill as ShellToolLocalSkill
from . import ShellToolSkillReference as ShellToolSkillReference
from . import Tool as Tool
from . import ToolOutputFileContent as ToolOutputFileContent
from . import ToolOutputFileContentDict as ToolOutputFileContentDict
from . import ToolOutputImage as ToolOutputImage
from . import ToolOutputImageDict as ToolOutputImageDict
from . import ToolOutputText as ToolOutputText
from . import ToolOutputTextDict as ToolOutputTextDict
from . import WebSearchTool as WebSearchTool
from . import WebSearchToolImageSettings as WebSearchToolImageSettings
from . import default_tool_error_function as default_tool_error_function
from . import function_tool as function_tool
from .support.missing import speaks
from .tools.approval_callbacks import ApplyPatchApprovalFunction as ApplyPatchApprovalFunction
from .tools.approval_callbacks import ApplyPatchOnApprovalFunction as ApplyPatchOnApprovalFunction
from .tools.approval_callbacks import ApplyPatchOnApprovalFunctionResult as ApplyPatchOnApprovalFunctionResult
from .tools.approval_callbacks import CustomToolApprovalFunction as CustomToolApprovalFunction
from .tools.approval_callbacks import CustomToolOnApprovalFunction as CustomToolOnApprovalFunction
from .tools.approval_callbacks import CustomToolOnApprovalFunctionResult as CustomToolOnApprovalFunctionResult
from .tools.approval_callbacks import ShellApprovalFunction as ShellApprovalFunction
from .tools.approval_callbacks import ShellOnApprovalFunction as ShellOnApprovalFunction
from .tools.function import ToolFunction as ToolFunction
from .tools.functions.bound import ToolErrorFunction as ToolErrorFunction
from .tools.functions.options import TimeoutBehavior as TimeoutBehavior

ToolTimeoutBehavior = TimeoutBehavior

speaks(__name__)
