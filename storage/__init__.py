"""The durable state machine: conversations, prompts, runs, continuations, deliveries. Knows no chat and no agent."""
