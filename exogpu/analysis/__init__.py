"""Facts about a procedure: who executes what, who owns what, how long it lives."""
