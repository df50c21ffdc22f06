"""Certificates: written, sealed, read strictly, and answered again."""
