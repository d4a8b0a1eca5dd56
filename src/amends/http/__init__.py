"""The server between agents and the journal: it owns journal and keys, takes commands, judges, decides and appends.

`app` wires it, `callers` says who asks and what they may, `problems` how a refusal looks. `api` is what programs use,
`console` what people see. Starlette and uvicorn are the extra `serve`, and are imported in this room only.
"""
