"""Who is who in one tenant: people, roles, groups, tokens, keys, delegations, addresses and settings, as a log."""
