"""What people see of Nightporter: each cog parses, asks who it is, calls one method, and answers."""
