"""The Discord adapter: the only part, with the cogs, that knows discord.py."""
