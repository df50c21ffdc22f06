"""Steps of a schedule as data, what a rewriting has to show, and certificates of it."""
