"""Sagas through a server: what an agent or a worker says to it over HTTP, and `Coordinator.connect`, which speaks so.

`contracts` and `outcomes` are the words of both sides; the server's side of them is in `amends.http`.
"""
