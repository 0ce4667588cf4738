"""Reading and applying patches: notations of diffs, hunks, and the editor of a workspace."""
