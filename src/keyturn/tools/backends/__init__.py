"""The places where the files of a deep agent live: in memory, below a folder, in a sandbox, or several of them."""
