"""One log for everything, to stderr: structured events, the libraries' own lines, crashes; text or JSON, never a secret."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from bot.masking import Masker

LogFormat = Literal["text", "json"]

#: Libraries that tell of routine at INFO; from WARNING on they are heard.
_QUIET = ("alembic", "apscheduler", "asyncio", "aiohttp.access", "discord.client", "mcp")


def configure_logs(log_format: LogFormat, level: str, secrets: Iterable[str] = (), stream: TextIO | None = None) -> None:
    """Send all logging of this process to `stream` (stderr), from `level` on, with `secrets` masked in every field.

    May be called again, for example once the secrets are known. Exceptions that end the process are logged too, so that
    a traceback cannot show what a log line would have masked.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        # Tracebacks become text here, so that the masking below sees them.
        structlog.processors.format_exc_info,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer(default=str)
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0, sort_keys=False)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _MaskEverything(Masker(secrets)), renderer],
    )
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level) if root.level > logging.DEBUG else logging.NOTSET)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    sys.excepthook = _log_crash


def _log_crash(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    structlog.get_logger("bot").critical("process.crashed", exc_info=(kind, error, traceback))


class _MaskEverything:
    """The last processor before rendering: no field, name or nested value leaves with a secret in it."""

    def __init__(self, mask: Masker) -> None:
        self._mask = mask

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {self._mask(str(name)): self._masked(value) for name, value in event.items()}

    def _masked(self, value: object) -> object:
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return self._mask(value)
            case Mapping():
                return {self._mask(str(name)): self._masked(held) for name, held in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self._masked(held) for held in value]
            case _:
                # Whatever a renderer would make of it is text: make it here, where it is masked.
                return self._mask(str(value))
