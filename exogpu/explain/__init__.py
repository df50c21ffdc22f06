"""From a violation to words: the way of an access, the broken link, repairs that were tried."""
