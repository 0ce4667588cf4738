"""Make facts of what people and tools say: values and decisions as a log can hold them."""
