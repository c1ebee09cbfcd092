"""The composition root: builds every part from the settings, runs until told to stop, and takes everything down in order.

The only module that sees all parts. What it starts it ends, also when something fails half-way.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

from bot.agents.base import AgentProvider, PermissionPolicy
from bot.agents.host import host, instance_of
from bot.agents.launch import forget_left_over
from bot.agents.pool import AgentPool
from bot.agents.watchdog import Silence
from bot.checks import prepare_state_dir
from bot.clock import Clock, SystemClock
from bot.errors import EXIT_FAILED, EXIT_OK, ConfigError, Unavailable
from bot.faults import agent_with_points, chat_with_points, crash_hook
from bot.gateway.client import Gateway
from bot.runtime.ports import ProjectRules, RuntimeConfig, WaitBounds
from bot.runtime.runtime import Runtime
from bot.settings import Settings
from storage.errors import StorageUnavailable
from storage.files import FileLock
from storage.models import Rules
from storage.points import FaultHook, no_fault
from storage.store import Store

log = structlog.get_logger(__name__)

#: Makes the agents; the environment is the one that their short list of variables is taken from.
Providers = Callable[[Settings, Clock, Mapping[str, str]], Sequence[AgentProvider]]


def run(settings: Settings, *, providers: Providers | None = None) -> int:
    """Work until SIGTERM or SIGINT and return the exit code. A second signal ends the process at once; nothing durable is lost.

    Raises:
        ConfigError, Unavailable: one sentence for a person, with its exit code.
    """
    return asyncio.run(_main(settings, providers or claude))


def claude(settings: Settings, clock: Clock, environ: Mapping[str, str]) -> Sequence[AgentProvider]:
    """The agents of a real installation."""
    # Imported here: the SDK is a third of a start's time, and a process with other agents does without it.
    from bot.agents.claude.config import ClaudeConfig  # noqa: PLC0415
    from bot.agents.claude.provider import ClaudeProvider  # noqa: PLC0415

    own, limits = settings.agents.claude, settings.limits
    config = ClaudeConfig(
        state_dir=settings.state_dir,
        environ=environ,
        model=own.model,
        base_url=own.base_url,
        api_key=own.api_key.get_secret_value() if own.api_key is not None else None,
        auth_token=own.auth_token.get_secret_value() if own.auth_token is not None else None,
        config_dir=own.config_dir,
        env=own.env,
        retries=limits.cli_retries,
        api_timeout_ms=limits.api_timeout_ms,
        silence=Silence(turn_s=limits.silent_turn_ms / 1_000, tool_s=limits.silent_tool_ms / 1_000),
        interrupt_s=limits.interrupt_ms / 1_000,
    )
    return (ClaudeProvider(config, clock),)


def runtime_config(settings: Settings) -> RuntimeConfig:
    """What the runtime is told."""
    return RuntimeConfig(
        host=host(settings.state_dir),
        projects={p.name: ProjectRules(PermissionPolicy(p.permission_mode, p.allowed_commands)) for p in settings.projects},
        max_concurrent_runs=settings.runtime.max_concurrent_runs,
        narration=settings.discord.narration,
        wait=WaitBounds(settings.wait.min_ms, settings.wait.max_ms, settings.wait.expire_after_ms),
        drain_s=settings.limits.drain_ms / 1_000,
    )


def rules_of(settings: Settings) -> Rules:
    """The bounds that decisions use."""
    return Rules(
        unattended_runs=settings.wait.unattended_runs,
        unattended_ms=settings.wait.unattended_time_ms,
        queue_limit=settings.limits.queue,
        catch_up_max_age_ms=settings.discord.catch_up_max_age_ms,
    )


async def _main(settings: Settings, providers: Providers) -> int:
    clock, environ = SystemClock(), dict(os.environ)
    prepare_state_dir(settings.state_dir)
    try:
        config = runtime_config(settings)
    except OSError as error:
        raise ConfigError(f"state_dir: {settings.state_dir} cannot be used: {error.strerror}; choose another folder") from None
    async with AsyncExitStack() as stack:
        fault = crash_hook(environ)
        store = await _open_store(settings, clock, instance_of(config.host), fault or no_fault)
        stack.push_async_callback(store.aclose)
        stack.callback(_only_here(settings.state_dir).release)
        if left_over := await asyncio.to_thread(forget_left_over, settings.state_dir, clock.now_ms()):
            log.info("app.folders_removed", count=left_over)
        agents = providers(settings, clock, environ)
        if fault is not None:
            agents = [agent_with_points(agent, fault) for agent in agents]
        for agent in agents:
            stack.push_async_callback(agent.close)
        await _check(agents)
        pool = AgentPool(agents, cap=settings.runtime.warm_agents, idle_timeout_s=settings.runtime.idle_timeout_ms / 1_000, clock=clock)
        stack.push_async_callback(pool.aclose)
        gateway = Gateway(settings, clock=clock)
        chat = gateway.chat if fault is None else chat_with_points(gateway.chat, fault)
        runtime = Runtime(store, pool, chat, clock, config)
        gateway.attach(runtime)
        return await _serve(runtime, gateway)


def _only_here(state_dir: Path) -> FileLock:
    """Whoever has it knows that no other process of this host is there (`Services.gone`)."""
    try:
        return FileLock.take(state_dir / "host-id")
    except StorageUnavailable as error:
        raise Unavailable(f"state_dir: {error} Stop that process, or give each a state_dir of its own.") from error


async def _open_store(settings: Settings, clock: Clock, instance: str, fault: FaultHook) -> Store:
    try:
        return await Store.open(
            settings.database.url.get_secret_value(),
            now=clock.now_ms,
            rules=rules_of(settings),
            instance=instance,
            fault=fault,
        )
    except StorageUnavailable as error:
        raise Unavailable(f"database: {error}") from error


async def _check(agents: Sequence[AgentProvider]) -> None:
    for agent in agents:
        sentence = await agent.check()
        if sentence is not None:
            raise Unavailable(f"agents.{agent.name}: {sentence}")


async def _serve(runtime: Runtime, gateway: Gateway) -> int:
    """Run until a signal, a dead loop or a gateway that cannot go on; then stop in an order in which last words still go out."""
    told, gateway_stop = asyncio.Event(), asyncio.Event()
    _on_signals(told)
    await runtime.start()
    connected = asyncio.create_task(gateway.run(gateway_stop), name="gateway")
    stopping = asyncio.create_task(told.wait(), name="signals")
    dying = asyncio.create_task(runtime.died(), name="deaths")
    try:
        await asyncio.wait({connected, stopping, dying}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # The gateway stays up meanwhile: what turns say at the end is posted. What comes in is stored and waits.
        await runtime.stop(0 if dying.done() else None)
        gateway_stop.set()
        stopping.cancel()
        dying.cancel()
        await asyncio.wait({connected})
    connected.result()
    if told.is_set() and (dying.cancelled() or not dying.done()):
        return EXIT_OK
    log.critical("app.failed", loop=dying.result() if dying.done() and not dying.cancelled() else "gateway")
    return EXIT_FAILED


def _on_signals(told: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def tell(received: signal.Signals) -> None:
        log.info("app.stopping", signal=received.name)
        told.set()
        # Whoever asks twice means now.
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, tell, each)
