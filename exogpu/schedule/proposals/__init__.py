"""Search for synchronisation: what may mend a hazard, trials of it, and the best of them."""
