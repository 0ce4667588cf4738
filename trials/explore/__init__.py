"""Every order of a small world: the real core, walked breadth first, beside a second statement of its promises."""
