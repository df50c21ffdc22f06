"""Search for hazards and for witnesses of all sizes with ISL; the proof believes none of it."""
