"""The eight steps of the demo's story: what people do, and what must follow."""

from __future__ import annotations

from bot.demo import leftovers, scenes
from bot.demo.recorder import DidNotCome
from bot.demo.scenes import Scene
from bot.demo.story import Step, Story
from bot.demo.transcript import short
from bot.loopback.discord import Message
from storage.states import ContinuationState, RunState


async def ask(story: Story) -> str:
    """Step 1."""
    backend, alice = story.cast.backend, story.cast.alice
    run = await story.talk(backend, alice, scenes.ASK_CI)
    wait = story.waits[1] = await story.pending(run)
    return f"the answer is in #backend, run {run.id} succeeded, c{wait.id} is pending"


async def list_it(story: Story) -> str:
    """Step 2."""
    wait = story.waits[1]
    shown = shown_text(await story.command(story.cast.backend, story.cast.ada, "continuations list"))
    wanted = {
        "its id": f"c{wait.id}",
        "who": (story.cast.alice.user.name, f"<@{story.cast.alice.id}>"),
        "where": (story.cast.backend.name, f"<#{story.cast.backend.id}>"),
        "why": wait.reason,
        "when": f"<t:{wait.due_at_ms // 1000}",
    }
    for what, words in wanted.items():
        found = any(word in shown for word in ((words,) if isinstance(words, str) else words))
        await story.expect(found, f"/continuations list shows {what} of c{wait.id}: {words}")
    return f"/continuations list shows c{wait.id} with who, where, why and when"


async def wake(story: Story) -> str:
    """Step 3."""
    wait = story.waits[1]
    run = await story.woken(wait, scenes.WAKE_CI, story.cast.backend)
    session = story.session_of(wait)
    request = await story.first_request(run)
    history = "\n".join(request.detail["history"])
    await story.expect(request.session == session == story.session_of(run), f"the wake runs in session {short(session)}")
    await story.expect(scenes.ASK_CI.cue in history, "the model API received the earlier history")
    await story.expect(wait.reason in (request.text or ""), "the model API received the wake prompt with its reason")
    await story.expect(told(request.text).startswith("[delivered]"), "the wake's prompt begins with the [delivered] receipt")
    await story.expect(run.claimed_ms >= wait.due_at_ms, "the wake does not come before its time")
    return f"c{wait.id} woke session {short(session)} again (run {run.id}), with its history and the [delivered] receipt"


async def cancel(story: Story) -> str:
    """Step 4."""
    backend, alice, bob, ada = story.cast.backend, story.cast.alice, story.cast.bob, story.cast.ada
    run = await story.talk(backend, alice, scenes.ASK_STAGING)
    wait = await story.pending(run)
    name = f"c{wait.id}"
    await story.command(backend, bob, "continuations cancel", id=name)
    story.recorder.look()
    await story.expect(story.state_of(wait) is ContinuationState.PENDING, f"bob, who did not begin {name}, is refused")
    await story.command(backend, ada, "continuations cancel", id=name)
    await story.until(lambda: story.state_of(wait) is ContinuationState.CANCELLED or None, f"{name} is cancelled by an admin")
    story.never[4] = wait
    later = await story.talk(backend, alice, scenes.ASK_CHANGELOG)
    prompt = told((await story.first_request(later)).text)
    await story.expect(name in prompt and "cancelled" in prompt, f"the agent's next prompt says that {name} was cancelled")
    return f"bob was refused, ada cancelled {name}, and the agent was told so in run {later.id}"


async def skip(story: Story) -> str:
    """Step 5."""
    backend, alice = story.cast.backend, story.cast.alice
    message = await story.say(backend, alice, scenes.NOT_FOR_IT.cue, to_bot=False)

    def ended() -> bool | None:
        run = story.run_of(message)
        return (run is not None and run.state is RunState.SUCCEEDED and run.skipped_why is not None) or None

    await story.until(ended, "the agent calls skip_reply and its run succeeds")
    later = await story.talk(backend, alice, scenes.ASK_TESTS)
    prompt = told((await story.first_request(later)).text)
    await story.expect("[delivered] nothing: kept private" in prompt, "the next prompt's receipt says that nothing was posted")
    await story.expect(said_between(story, message, later.id) == 0, "nothing is posted for a message that is not for the agent")
    return f"nothing was posted, and the receipt said so in run {later.id}"


async def people_first(story: Story) -> str:
    """Step 6."""
    backend, alice, bob = story.cast.backend, story.cast.alice, story.cast.bob
    wait = await story.pending(await story.talk(backend, alice, scenes.ASK_NIGHTLY))
    busy = await story.say(backend, alice, scenes.ASK_LONG.cue)
    await story.until(lambda: story.events("request", run=run.id) if (run := story.run_of(busy)) else None, "the agent is busy")
    await story.until(lambda: story.state_of(wait) is ContinuationState.CLAIMED or None, f"c{wait.id} falls due while the agent is busy")
    person = await story.say(backend, bob, scenes.ASK_MEANWHILE.cue)
    await story.until(
        lambda: next((row for row in story.recorder.rows.prompts if row.message_id == person.id), None), "bob's message waits its turn"
    )
    story.servers.brain.release(scenes.ASK_LONG)
    first = await story.answered(busy, scenes.ASK_LONG, backend)
    second = await story.answered(person, scenes.ASK_MEANWHILE, backend)
    third = await story.woken(wait, scenes.WAKE_NIGHTLY, backend)
    await story.expect(first.id < second.id < third.id, "bob's message runs before the wake that was due earlier")
    return f"c{wait.id} was due first, but bob went first (run {second.id}), then the wake (run {third.id})"


async def stop(story: Story) -> str:
    """Step 7."""
    website, bob = story.cast.website, story.cast.bob
    message = await story.say(website, bob, scenes.ASK_PUBLISH.cue)
    run = await story.until(lambda: story.run_of(message), "bob's message is taken")
    wait = await story.requested(run)
    await story.command(website, bob, "stop")

    def stopped() -> bool | None:
        ended = story.run_of(message)
        return (ended is not None and ended.state is RunState.CANCELLED) or None

    await story.until(stopped, f"run {run.id} is cancelled")
    await story.expect(story.state_of(wait) is ContinuationState.CANCELLED, f"c{wait.id}, which run {run.id} asked for, is cancelled")
    story.never[7] = wait
    return f"/stop ended run {run.id} and cancelled c{wait.id}"


async def crash(story: Story) -> str:
    """Step 8."""
    backend, alice, bob, porter = story.cast.backend, story.cast.alice, story.cast.bob, story.servers.porter
    wait = await story.pending(await story.talk(backend, alice, scenes.ASK_LOAD))
    before = leftovers.agents(run.process for run in story.recorder.rows.runs)
    running = {pid: before[pid] for pid in leftovers.alive(before)}
    await story.expect(running, "the agent's process is alive before the kill")
    await story.end_porter(porter.kill)
    story.recorder.look()
    await story.expect(story.state_of(wait) is ContinuationState.PENDING, f"c{wait.id} is pending when Nightporter is killed")
    message = await story.say(backend, bob, scenes.ASK_WHILE_DOWN.cue)
    await story.agents_gone(running)
    await story.start_porter()
    answered = await story.answered(message, scenes.ASK_WHILE_DOWN, backend)
    woken = await story.woken(wait, scenes.WAKE_LOAD, backend)
    for scene in (scenes.ASK_WHILE_DOWN, scenes.WAKE_LOAD):
        await once(story, scene)
    return f"killed and started again: the message was answered once (run {answered.id}), c{wait.id} woke once (run {woken.id})"


STEPS = (
    Step(1, "A member asks for something that takes time: the agent answers and waits", ask),
    Step(2, "/continuations list shows what is pending", list_it),
    Step(3, "It comes due: a wake in the same session", wake),
    Step(4, "A wait is cancelled by an admin; somebody without the right is refused", cancel),
    Step(5, "A message that is not for the agent: it keeps quiet", skip),
    Step(6, "A person writes while a wake falls due: people first", people_first),
    Step(7, "A turn that asked for a wait is stopped", stop),
    Step(8, "SIGKILL while a wait is pending and a message is typed", crash),
)


async def once(story: Story, scene: Scene) -> None:
    """The scene's answer is in #backend exactly once."""
    count = len(story.answers(story.cast.backend, scene))
    if count != 1:
        raise DidNotCome(f'"{scene.answer}" is posted once, not {count} times')


def told(prompt: str | None) -> str:
    """What the agent was told, from its first visible character on."""
    return (prompt or "").lstrip()


def said_between(story: Story, message: Message, run_id: int) -> int:
    """How many messages the bot posted in the channel after `message` and before the run began to answer."""
    began = next((run.claimed_ms for run in story.recorder.rows.runs if run.id == run_id), 0)
    later = [event for event in story.events("message", conversation=message.channel.name) if event.detail.get("bot")]
    return sum(message.created_ms <= event.t_ms < began for event in later)


def shown_text(message: Message) -> str:
    """All that a person reads in a message: its text and its embeds."""
    texts = [message.content]
    for embed in message.embeds:
        texts += [str(embed.get("title") or ""), str(embed.get("description") or "")]
        texts += [f"{field.get('name')} {field.get('value')}" for field in embed.get("fields") or []]
        texts.append(str((embed.get("footer") or {}).get("text") or ""))
    return "\n".join(texts)
