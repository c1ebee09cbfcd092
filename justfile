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

# What .ci/run runs beside it: many starts of whole processes, an installation from the wheel.
ci *arguments:
    .venv/bin/pytest -m ci {{arguments}}

# What runs against a real PostgreSQL server, which the tests start themselves.
pg:
    .venv/bin/pytest -m "postgres and not full"

# The story of the main job, on this machine alone.
demo *arguments:
    .venv/bin/nightporter demo {{arguments}}

# Write constraints.txt and requirements.lock; --upgrade takes the newest versions allowed.
lock *arguments:
    .ci/lock {{arguments}}

# Explore the state machine with the full bounds; takes long.
model-full:
    .venv/bin/pytest -n 0 -m full -s tests/model

# Write down what the rules decide in their unit tests, after a change that is meant; then read the difference.
decisions:
    .venv/bin/pytest -n 0 -q tests/unit/transitions --snapshot-update

# Change the rules one operator at a time: what no test notices is named. The survivors that remain, and why: docs/proofs/mutants.txt.
mutants *arguments:
    .venv/bin/mutmut run {{arguments}}
    .venv/bin/mutmut results

# The whole runtime on virtual time with faults: 200 seeds; arguments go to it, for example `just sim --seed 7 --trace`.
sim *arguments:
    .venv/bin/python -m tests.simulation {{arguments}}

# The same with 2,000 seeds; takes long.
sim-full *arguments:
    .venv/bin/python -m tests.simulation --seeds 2000 {{arguments}}

# The real process killed at random instants while people talk, then every promise: `just storm --kills 200 --seed 7 --agent real`.
storm *arguments:
    .venv/bin/python -m tests.crash.storm {{arguments}}

# 500 kills on both databases, with both agents: half an hour. The output of the last run is docs/proofs/crash-full.txt.
crash-full *arguments:
    .venv/bin/python -m tests.crash.full {{arguments}}

# Two hours of load with ten minutes of kills and random faults, then every promise, and whether memory is flat; takes that long.
load *arguments:
    .venv/bin/python -m tests.crash.load {{arguments}}
