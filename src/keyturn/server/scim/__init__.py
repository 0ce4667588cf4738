"""SCIM 2.0 (RFC 7643, 7644): an identity provider keeps users and groups of the directory, with a token of its own."""
