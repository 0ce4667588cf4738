"""OpenAI's models, by the Responses API and by Chat Completions, and every server that speaks the latter."""
