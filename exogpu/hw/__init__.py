"""Facts about the hardware, as tables."""
