"""Interactions: commands, completion, buttons, selects, modals, their deadlines and their tokens."""

from __future__ import annotations

import asyncio
from typing import Any

import discord
import pytest
import pytest_asyncio
from discord import app_commands

from bot.loopback.discord import ApiError, CannotInvokeError, DidNotRespondError, Intent, MessageFlag, Permission

from .conftest import Client, Hotel, Lobby, Refused

Interaction = discord.Interaction[Client]


class Question(discord.ui.Modal, title="Question"):
    text: discord.ui.TextInput[Question] = discord.ui.TextInput(label="What?", custom_id="text", min_length=2)

    async def on_submit(self, interaction: discord.Interaction[Any]) -> None:
        await interaction.response.send_message(f"you said {self.text.value}", ephemeral=True)


class Panel(discord.ui.View):
    def __init__(self) -> None:
        super().__init__(timeout=None)

    @discord.ui.button(label="Ask", custom_id="ask")
    async def ask(self, interaction: discord.Interaction[Any], _: discord.ui.Button[Any]) -> None:
        await interaction.response.send_modal(Question())

    @discord.ui.button(label="Close", custom_id="close")
    async def close(self, interaction: discord.Interaction[Any], _: discord.ui.Button[Any]) -> None:
        self.close.disabled = True
        await interaction.response.edit_message(content="closed", view=self)

    @discord.ui.button(label="Later", custom_id="later")
    async def later(self, interaction: discord.Interaction[Any], _: discord.ui.Button[Any]) -> None:
        await interaction.response.defer()
        await interaction.edit_original_response(content="updated later")
        await interaction.followup.send("and more", ephemeral=True)

    @discord.ui.select(custom_id="pick", options=[discord.SelectOption(label=one) for one in ("red", "green")])
    async def pick(self, interaction: discord.Interaction[Any], select: discord.ui.Select[Any]) -> None:
        await interaction.response.send_message(f"picked {select.values[0]}")


class Resume(discord.ui.DynamicItem[discord.ui.Button[Any]], template=r"resume:(?P<run>\d+)"):
    def __init__(self, run: int) -> None:
        super().__init__(discord.ui.Button(label=f"Resume {run}", custom_id=f"resume:{run}"))
        self.run = run

    @classmethod
    async def from_custom_id(cls, interaction: discord.Interaction[Any], item: Any, match: Any, /) -> Resume:
        return cls(int(match["run"]))

    async def callback(self, interaction: discord.Interaction[Any]) -> None:
        await interaction.response.send_message(f"resumed {self.run}")


class Concierge(Client):
    """A client with commands; ``hold`` is what ``/slow`` waits for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hold = asyncio.Event()
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()

    async def setup_hook(self) -> None:
        self.add_view(Panel())
        self.add_dynamic_items(Resume)
        group = app_commands.Group(name="continuations", description="Waits", default_permissions=discord.Permissions(manage_guild=True))

        @group.command(name="list", description="List them")
        async def _list(interaction: Interaction) -> None:
            embed = discord.Embed(title="Continuations", description="none")
            await interaction.response.send_message(embed=embed, ephemeral=True)

        @group.command(name="cancel", description="Cancel one")
        async def cancel(interaction: Interaction, which: str, who: discord.Member | None = None) -> None:
            await interaction.response.defer(ephemeral=True)
            await interaction.followup.send(f"cancelled {which} of {who}")
            await interaction.followup.send("told the agent")

        @cancel.autocomplete("which")
        async def _complete(interaction: Interaction, typed: str) -> list[app_commands.Choice[str]]:
            return [app_commands.Choice(name=f"{typed}{one}", value=f"{typed}{one}") for one in range(26 if typed == "many" else 2)]

        @self.tree.command(name="panel", description="Show the panel")
        async def _panel(interaction: Interaction) -> None:
            await interaction.response.send_message("panel", view=Panel())

        @self.tree.command(name="mine", description="A panel of one's own")
        async def _mine(interaction: Interaction) -> None:
            await interaction.response.send_message("panel", view=Panel(), ephemeral=True)

        @self.tree.command(name="slow", description="Take its time")
        async def _slow(interaction: Interaction) -> None:
            await self.hold.wait()
            await self.note(interaction.response.send_message("late"))

        @self.tree.command(name="twice", description="Answer twice")
        async def _twice(interaction: Interaction) -> None:
            await interaction.response.send_message("once")
            interaction.response._response_type = None  # noqa: SLF001  # past the client's own guard, to the server's
            await self.note(interaction.response.send_message("twice"))

        self.tree.add_command(group)
        await self.tree.sync()

    async def note(self, call: Any) -> None:
        try:
            await call
        except discord.HTTPException as error:
            self.errors.put_nowait(error)

    async def next_error(self) -> discord.HTTPException:
        error = await asyncio.wait_for(self.errors.get(), 10)
        assert isinstance(error, discord.HTTPException)
        return error


@pytest_asyncio.fixture
async def concierge(lobby: Lobby, hotel: Hotel) -> Concierge:
    client = Concierge()
    await lobby.connect(hotel, client)
    return client


async def test_a_subcommand_answers_with_an_ephemeral_embed_that_history_does_not_hold(hotel: Hotel, concierge: Concierge) -> None:
    handle = await hotel.people.slash(hotel.channel, hotel.alice, "continuations list")
    answer = await handle.answer()
    assert (answer.embeds[0]["title"], answer.ephemeral) == ("Continuations", True)
    assert hotel.people.messages(hotel.channel) == []


async def test_an_ephemeral_answer_comes_back_to_the_bot_as_if_it_were_a_direct_message(hotel: Hotel, concierge: Concierge) -> None:
    await hotel.people.slash(hotel.channel, hotel.alice, "continuations list")
    heard = await concierge.next_message()
    assert (heard.guild, heard.flags.ephemeral, heard.author.id) == (None, True, hotel.people.bot.id)


async def test_a_deferred_answer_is_filled_in_by_the_first_followup(hotel: Hotel, concierge: Concierge) -> None:
    handle = await hotel.people.slash(hotel.channel, hotel.alice, "/continuations cancel", {"which": "c17", "who": hotel.bob})
    answer = await handle.answer()
    assert (answer.content, answer.ephemeral) == ("cancelled c17 of bob", True)
    assert (await handle.followup()).content == "told the agent"
    ack = hotel.discord.log.of("interaction.ack")[0]
    assert (ack.detail["callback"], ack.detail["ephemeral"]) == ("deferred_message", True)


async def test_completion_gives_choices(hotel: Hotel, concierge: Concierge) -> None:
    choices = await hotel.people.autocomplete(hotel.channel, hotel.alice, "continuations cancel", "which", "c")
    assert [one["value"] for one in choices] == ["c0", "c1"]


async def test_more_than_25_choices_are_refused(hotel: Hotel, concierge: Concierge) -> None:
    since = len(hotel.discord.log)
    asking = asyncio.create_task(hotel.people.autocomplete(hotel.channel, hotel.alice, "continuations cancel", "which", "many"))
    refused = await hotel.people.wait_for(lambda one: one.kind == "request" and "callback" in (one.path or ""), since=since)
    assert refused.status == 400
    hotel.discord.clock.advance(4)
    with pytest.raises(DidNotRespondError):
        await asking


async def test_what_was_not_synced_or_does_not_fit_cannot_be_invoked(hotel: Hotel, concierge: Concierge) -> None:
    people, channel, alice = hotel.people, hotel.channel, hotel.alice
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("nothing", {}),
        ("continuations", {}),
        ("continuations wake", {}),
        ("continuations cancel", {}),
        ("continuations cancel", {"which": "x", "what": "y"}),
        ("continuations cancel", {"which": 5}),
    ]
    for path, options in attempts:
        with pytest.raises(CannotInvokeError):
            await people.slash(channel, alice, path, options)
    with pytest.raises(CannotInvokeError):
        await people.autocomplete(channel, alice, "continuations cancel", "who", "x")
    await people.set_overwrite(channel, alice, deny=Permission.USE_APPLICATION_COMMANDS)
    with pytest.raises(CannotInvokeError):
        await people.slash(channel, alice, "panel")
    assert hotel.discord.log.of("interaction.create") == []


async def test_default_member_permissions_do_not_protect_a_command(hotel: Hotel, concierge: Concierge) -> None:
    assert not hotel.discord.world.guild_rights(hotel.alice) & Permission.MANAGE_GUILD
    await (await hotel.people.slash(hotel.channel, hotel.alice, "continuations list")).answer()


async def test_a_guild_sync_offers_a_command_in_that_guild_only(lobby: Lobby, hotel: Hotel) -> None:
    client = await lobby.login(hotel)
    other = await hotel.people.create_guild("annexe")
    room = await hotel.people.create_channel(other, "room")
    guest = await hotel.people.join(other, "guest")
    command = {"name": "here", "type": 1, "description": "x"}
    rows = await client.http.bulk_upsert_guild_commands(client.application_id or 0, hotel.guild.id, [command])
    again = await client.http.bulk_upsert_guild_commands(client.application_id or 0, hotel.guild.id, [command])
    assert rows[0]["id"] == again[0]["id"]
    await hotel.people.slash(hotel.channel, hotel.alice, "here")
    with pytest.raises(CannotInvokeError):
        await hotel.people.slash(room, guest, "here")


COMMAND = {"name": "x", "type": 1, "description": "x"}
OPTION = {"name": "o", "type": 3, "description": "x"}


@pytest.mark.parametrize(
    "commands",
    [
        [COMMAND | {"name": "Upper"}],
        [COMMAND | {"name": "n" * 33}],
        [COMMAND | {"description": ""}],
        [COMMAND | {"description": "d" * 101}],
        [COMMAND, COMMAND],
        [COMMAND | {"name": f"c{one}"} for one in range(101)],
        [COMMAND | {"options": [OPTION | {"name": f"o{one}"} for one in range(26)]}],
        [COMMAND | {"options": [OPTION, OPTION | {"name": "p", "required": True}]}],
        [COMMAND | {"options": [OPTION | {"choices": [{"name": str(one), "value": str(one)} for one in range(26)]}]}],
    ],
)
async def test_commands_out_of_bounds_are_refused(requester: Client, refused: Refused, commands: Any) -> None:
    async with refused(50035):
        await requester.http.bulk_upsert_global_commands(requester.application_id or 0, commands)


async def test_buttons_edit_open_modals_and_follow_up(hotel: Hotel, concierge: Concierge) -> None:
    people, alice = hotel.people, hotel.alice
    panel = await (await people.slash(hotel.channel, alice, "panel")).answer()
    asked = await people.click(panel, alice, "Ask")
    with pytest.raises(CannotInvokeError):
        await people.submit_modal(asked, {"text": "x"})
    said = await (await people.submit_modal(asked, {"text": "hello"})).answer()
    assert (said.content, said.ephemeral_for) == ("you said hello", alice.id)
    picked = await (await people.select(panel, hotel.bob, "pick", ["green"])).answer()
    assert picked.content == "picked green"
    later = await people.click(panel, alice, "later")
    assert (await later.followup()).content == "and more"
    assert panel.content == "updated later"
    closed = await (await people.click(panel, alice, "close")).answer()
    assert (closed.id, closed.content) == (panel.id, "closed")
    with pytest.raises(CannotInvokeError):
        await people.click(panel, alice, "close")


async def test_persistent_buttons_work_for_a_client_that_did_not_send_them(lobby: Lobby, hotel: Hotel, concierge: Concierge) -> None:
    body = {"content": "interrupted", "components": [{"type": 1, "components": [Resume(17).item.to_component_dict()]}]}
    await concierge.post(hotel.channel, body)
    await concierge.close()
    await lobby.connect(hotel, Concierge())
    message = hotel.people.messages(hotel.channel)[0]
    assert (await (await hotel.people.click(message, hotel.alice, "Resume 17")).answer()).content == "resumed 17"


async def test_an_ephemeral_message_is_out_of_reach_for_others_and_for_the_channel_routes(
    hotel: Hotel, concierge: Concierge, refused: Refused
) -> None:
    answer = await (await hotel.people.slash(hotel.channel, hotel.alice, "mine")).answer()
    with pytest.raises(CannotInvokeError, match="cannot see"):
        await hotel.people.click(answer, hotel.bob, "ask")
    await (await hotel.people.click(answer, hotel.alice, "ask")).opened_modal()
    async with refused(10008):
        await concierge.text_channel(hotel.channel).fetch_message(answer.id)


async def test_after_three_seconds_the_interaction_is_unknown_and_the_person_sees_a_failure(hotel: Hotel, concierge: Concierge) -> None:
    handle = await hotel.people.slash(hotel.channel, hotel.alice, "slow")
    hotel.discord.clock.advance(3.5)
    with pytest.raises(DidNotRespondError):
        await handle.answer()
    concierge.hold.set()
    error = await concierge.next_error()
    assert (error.status, error.code) == (404, 10062)
    assert hotel.people.messages(hotel.channel) == []


async def test_a_second_response_is_refused(hotel: Hotel, concierge: Concierge) -> None:
    await hotel.people.slash(hotel.channel, hotel.alice, "twice")
    error = await concierge.next_error()
    assert (error.status, error.code) == (400, 40060)
    assert hotel.people.texts(hotel.channel) == ["once"]


@pytest.mark.parametrize("callback", [{"type": 7, "data": {"content": "x"}}, {"type": 8}, {"type": 4, "data": {"content": "x" * 2001}}])
async def test_a_response_that_does_not_fit_is_refused_and_leaves_the_one_response_open(
    hotel: Hotel, concierge: Concierge, refused: Refused, callback: dict[str, Any]
) -> None:
    handle = await hotel.people.slash(hotel.channel, hotel.alice, "slow")
    async with refused(50035, 400):
        await concierge.http.request(discord.http.Route("POST", f"/interactions/{handle.id}/{handle.token}/callback"), json=callback)
    concierge.hold.set()
    assert (await handle.answer()).content == "late"


async def test_the_token_ends_after_fifteen_minutes(hotel: Hotel, concierge: Concierge, refused: Refused) -> None:
    handle = await hotel.people.slash(hotel.channel, hotel.alice, "panel")
    await handle.answer()
    hook = discord.http.Route("POST", f"/webhooks/{hotel.people.bot.id}/{handle.token}")
    await concierge.http.request(hook, json={"content": "in time"})
    hotel.discord.clock.advance(15 * 60)
    async with refused(50027, 401):
        await concierge.http.request(hook, json={"content": "too late"})
    assert hotel.people.texts(hotel.channel) == ["panel", "in time"]


async def test_an_unacknowledged_or_foreign_token_is_no_webhook(hotel: Hotel, concierge: Concierge, refused: Refused) -> None:
    handle = await hotel.people.slash(hotel.channel, hotel.alice, "slow")
    for token in (handle.token, "made-up"):
        async with refused(10015, 404):
            await concierge.http.request(discord.http.Route("POST", f"/webhooks/{hotel.people.bot.id}/{token}"), json={"content": "x"})
    concierge.hold.set()
    await handle.answer()


async def test_interactions_work_in_direct_messages(hotel: Hotel, concierge: Concierge) -> None:
    channel = hotel.people.direct_channel(hotel.alice.user)
    panel = await (await hotel.people.slash(channel, hotel.alice, "panel")).answer()
    assert (await (await hotel.people.click(panel, hotel.alice, "close")).answer()).content == "closed"


async def test_interactions_missed_during_a_cut_are_replayed(hotel: Hotel, concierge: Concierge) -> None:
    hotel.discord.gateway.drop_connections()
    handle = await hotel.people.slash(hotel.channel, hotel.alice, "panel")
    assert (await handle.answer()).content == "panel"


async def test_a_locked_and_archived_thread_cannot_be_answered_in(hotel: Hotel, concierge: Concierge) -> None:
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "done")
    concierge.hold.set()
    handle = await hotel.people.slash(thread, hotel.alice, "slow")
    owner = hotel.guild.members[hotel.guild.owner_id]
    await hotel.people.change_channel(owner, thread, locked=True, archived=True)
    assert (await concierge.next_error()).code == 50083
    assert handle.acknowledged_as is None


async def test_a_v2_layout_can_be_sent_and_pressed(hotel: Hotel, concierge: Concierge) -> None:
    class Layout(discord.ui.LayoutView):
        words: discord.ui.TextDisplay[Any] = discord.ui.TextDisplay("**three** waits")
        row: discord.ui.ActionRow[Any] = discord.ui.ActionRow()

        @row.button(label="Stop", custom_id="stop")
        async def stop_them(self, interaction: discord.Interaction[Any], _: discord.ui.Button[Any]) -> None:
            await interaction.response.send_message("stopped")

    await concierge.text_channel(hotel.channel).send(view=Layout())
    message = hotel.people.messages(hotel.channel)[0]
    assert message.flags & MessageFlag.COMPONENTS_V2
    assert (await (await hotel.people.click(message, hotel.alice, "stop")).answer()).content == "stopped"


async def test_a_person_who_cannot_see_the_channel_cannot_press_its_buttons(hotel: Hotel, concierge: Concierge) -> None:
    panel = await (await hotel.people.slash(hotel.channel, hotel.alice, "panel")).answer()
    await hotel.people.set_overwrite(hotel.channel, hotel.bob, deny=Permission.VIEW_CHANNEL)
    with pytest.raises(CannotInvokeError):
        await hotel.people.click(panel, hotel.bob, "close")
    with pytest.raises(ApiError):
        await hotel.people.say(hotel.channel, hotel.bob, "x")


async def test_interactions_need_no_intent(lobby: Lobby, hotel: Hotel) -> None:
    await lobby.connect(hotel, Concierge(intents=discord.Intents(guilds=True)))
    assert Intent.GUILD_MESSAGES not in next(iter(hotel.discord.gateway.sessions.values())).intents
    assert (await (await hotel.people.slash(hotel.channel, hotel.alice, "panel")).answer()).content == "panel"


async def test_an_ephemeral_message_comes_back_only_with_the_intent_for_direct_messages(lobby: Lobby, hotel: Hotel) -> None:
    client = Concierge(intents=discord.Intents(guilds=True, guild_messages=True))
    await lobby.connect(hotel, client)
    await (await hotel.people.slash(hotel.channel, hotel.alice, "mine")).answer()
    public = await (await hotel.people.slash(hotel.channel, hotel.alice, "panel")).answer()
    assert (await client.next_message()).id == public.id
