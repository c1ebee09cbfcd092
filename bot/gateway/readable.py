"""Whether a channel's history may be believed: without the permission Discord shows an empty one, and no error."""

from __future__ import annotations

import discord


async def may_read_back(client: discord.Client, channel_id: int) -> bool:
    """Whether Discord shows the bot what was written here (developer docs, Get Channel Messages: READ_MESSAGE_HISTORY).

    Raises what `Client.fetch_channel` raises, where the channel is not known yet (an archived thread, a direct message).
    """
    channel = client.get_channel(channel_id) or await client.fetch_channel(channel_id)
    if not isinstance(channel, discord.abc.GuildChannel | discord.Thread):
        # A direct message has no permissions.
        return True
    if isinstance(channel, discord.Thread) and channel.parent is None:
        # A thread's permissions are its parent's, which is not shown to us.
        return False
    return channel.permissions_for(channel.guild.me).read_message_history
