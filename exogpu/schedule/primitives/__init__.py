"""The primitives of scheduling, by what they change."""
