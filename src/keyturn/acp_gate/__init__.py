"""A proxy between an editor and a coding agent that speak ACP: permissions are decided in the inbox."""
