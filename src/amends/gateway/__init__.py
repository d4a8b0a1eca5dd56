"""The MCP gateway: stands before MCP servers; each call of a tool is judged, on record, and can be taken back."""
