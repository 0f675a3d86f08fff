"""One GitHub event: what may run for it, and how its result is published."""
