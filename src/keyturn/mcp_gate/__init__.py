"""A proxy before an MCP server: its tools pass unchanged, and their calls wait for approval."""
