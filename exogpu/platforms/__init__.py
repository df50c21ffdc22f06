"""The catalogues under the names of the paper's sources: the same as exogpu.isa."""
