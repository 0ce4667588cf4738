"""Files below one root: paths, walks, searches, staged writes; nothing above the root is reached."""
