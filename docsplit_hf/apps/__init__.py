"""The front ends: commands, the page in the browser, and the server."""
