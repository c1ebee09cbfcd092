# Recipes for `just`; each is a plain command that also works without it.

# Show the recipes.
default:
    @just --list

# Everything that is needed to work on this, into .venv.
setup:
    .ci/setup

# Format, and mend what the linter can mend by itself.
fmt:
    .venv/bin/ruff check --fix .
    .venv/bin/ruff format .

# Lint, format, types, import contracts, dependencies, lock files.
check:
    .ci/check

# The default test run; arguments go to pytest.
test *arguments:
    .venv/bin/pytest {{arguments}}

# What runs against a real PostgreSQL server, which the tests start themselves.
pg:
    .venv/bin/pytest -m postgres

# The story of the main job, on this machine alone.
demo *arguments:
    .venv/bin/nightporter demo {{arguments}}

# Write constraints.txt and requirements.lock; --upgrade takes the newest versions allowed.
lock *arguments:
    .ci/lock {{arguments}}

# Explore the state machine with the full bounds; takes long.
model-full:
    .venv/bin/pytest -n 0 -m full -s tests/model
