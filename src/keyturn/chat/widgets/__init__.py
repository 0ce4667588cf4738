"""The parts of the screen: each draws rows and takes keys, and none of them decides anything by itself."""
