"""What programs use: `/v1`, one module a resource; the document of it is made from the code."""
