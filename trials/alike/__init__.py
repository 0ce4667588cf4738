"""Random programs of agents, run by the OpenAI Agents SDK and by Keyturn after an import change."""
