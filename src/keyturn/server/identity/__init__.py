"""How people prove who they are: links, passwords, passkeys and a provider, each of which begins a session."""
