"""Files below one root: paths, walks, searches, staged writes. Nothing above the root is reached."""
