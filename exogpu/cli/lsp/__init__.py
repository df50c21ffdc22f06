"""`exogpu lsp`: the language server.

The server (`server.py`) never executes a user's file: a worker (`worker.py`) does, in a process
that it forks for each check and kills when the text has changed.
"""
