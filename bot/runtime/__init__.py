"""What makes Nightporter go: it moves the durable rows, calls agents and posts answers. Knows no Discord and no SQL."""
