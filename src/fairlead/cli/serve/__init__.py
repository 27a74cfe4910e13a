"""Commands that keep running: the agent, the scheduler, the extender, the webhook, the warden."""
