"""The scripts of this folder run in environments of their own: what they import is not here."""

collect_ignore_glob = ["ask_*.py"]
