"""The journal of a server, over HTTP: commands go there, and entries come back."""
