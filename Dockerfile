# Debian with glibc: the wheel of claude-agent-sdk for musl (Alpine) has no agent program in it.
FROM python:3.11-slim AS build
WORKDIR /source

# What runs: every file is checked against its hash.
RUN python -m venv /opt/nightporter
COPY requirements.lock ./
RUN /opt/nightporter/bin/pip install --no-cache-dir --require-hashes -r requirements.lock

# Nightporter itself, as the wheel that everybody else would get.
COPY constraints.txt ./
RUN python -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir -c constraints.txt hatchling
COPY pyproject.toml README.md LICENSE ./
COPY bot bot
COPY cogs cogs
COPY storage storage
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /tmp/wheel . \
    && /opt/nightporter/bin/pip install --no-cache-dir --no-deps /tmp/wheel/*.whl

FROM python:3.11-slim
# git is for the agent's work; add here whatever else your projects need (compilers, gh, node).
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates git && rm -rf /var/lib/apt/lists/*
# The agent must not be root; 1000 is usually the owner of a mounted project folder.
RUN useradd --uid 1000 --create-home porter && install -d -o porter -g porter -m 0700 /nightporter/state
COPY --from=build /opt/nightporter /opt/nightporter
ENV PATH=/opt/nightporter/bin:$PATH PYTHONUNBUFFERED=1
USER porter

# config.toml is mounted here, and with the example's relative paths the state lies in the volume:
#   docker run -v ./config.toml:/nightporter/config.toml:ro -v ./secrets:/nightporter/secrets:ro -v porter:/nightporter/state -v /srv/backend:/srv/backend IMAGE
WORKDIR /nightporter
VOLUME /nightporter/state

# No init of its own is needed: Nightporter handles SIGTERM itself, and its launcher is the subreaper of all that an agent
# starts and reaps it. (`docker run --init` does no harm.)
STOPSIGNAL SIGTERM
ENTRYPOINT ["nightporter"]
CMD ["run", "--log-format", "json"]
