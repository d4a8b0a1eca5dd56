"""What people see: pages on everything that the server can do, which work without JavaScript."""
