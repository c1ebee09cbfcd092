"""What people see and press in Discord: thin commands over the runtime, independent of each other."""
