"""What users declare: agents, handoffs, guardrails, hooks, settings.

They are objects, not data; a log names agents by their path.
"""
