"""The command line: reads arguments, hands over to one part, and turns expected errors into one sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from bot.errors import EXIT_OK, ConfigError, NightporterError

#: Where `--config` is looked for when it is not given.
CONFIG_VARIABLE = "NIGHTPORTER_CONFIG"
#: What a shell reports for a program that Ctrl-C ended: 128 + SIGINT.
_EXIT_INTERRUPTED = 130

_config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    envvar=CONFIG_VARIABLE,
    help="The configuration file. Default: config.toml in this folder, if there is one.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nightporter", prog_name="nightporter")
def cli() -> None:
    """A bridge between Discord channels and coding agents that can wait and be woken."""


@cli.command()
@_config_option
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True)
def run(config_path: Path | None, log_format: str, log_level: str) -> int:
    """Connect to Discord and work until told to stop."""
    from bot.hardening import shed_secrets

    # First of all: it may execute this command anew.
    env = shed_secrets()

    from bot.checks import require
    from bot.logs import configure_logs
    from bot.settings import load_settings

    settings = load_settings(_config_file(config_path, env), env)
    configure_logs("json" if log_format == "json" else "text", log_level, settings.secrets())
    require(settings)

    # Discord and the agents only now: a wrong configuration is told at once.
    from bot import app

    return app.run(settings)


@cli.command("check-config")
@_config_option
def check_config(config_path: Path | None) -> int:
    """Say what the configuration means, and what is wrong with it. Starts nothing and writes nothing."""
    from bot.checks import inspect
    from bot.settings import load_settings

    env = dict(os.environ)
    findings = inspect(load_settings(_config_file(config_path, env), env))
    for finding in findings:
        click.echo(f"{finding.verdict:<8} {finding.sentence}")
    errors = [error for finding in findings if (error := finding.error())]
    # What must be mended comes before what may come back by itself.
    return max((error.exit_code for error in errors), default=EXIT_OK)


@cli.command()
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write every observed event as a JSON line.")
@click.option("--serve", is_flag=True, help="Keep everything up afterwards and print the addresses.")
@click.option("--sabotage", type=click.Choice(["no-wake"]), help="Break one promise on purpose, to see that it is noticed.")
def demo(json_file: Path | None, serve: bool, sabotage: str | None) -> int:
    """Play the main job on this machine alone: no account, no network. Exit code 1 if a step went wrong."""
    from bot import demo as story

    return story.main(json_file=json_file, serve=serve, sabotage=sabotage)


def _config_file(given: Path | None, env: Mapping[str, str]) -> Path | None:
    """The file to read; None if the environment alone holds the configuration."""
    from bot.settings_tree import is_setting

    if given is not None:
        return given
    default = Path("config.toml")
    if default.exists():
        return default
    if any(is_setting(name) for name in env):
        return None
    raise ConfigError("there is no config.toml in this folder: copy config.example.toml to it and fill it in, or name one with --config")


def main() -> int:
    """Run the command of `sys.argv` and return the exit code; expected errors are one sentence on stderr."""
    try:
        result = cli.main(standalone_mode=False)
    except NightporterError as error:
        click.echo(f"nightporter: {error}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _EXIT_INTERRUPTED
    return result if isinstance(result, int) else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
