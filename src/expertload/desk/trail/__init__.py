"""The record of what happened: events in a sealed chain, and messages to webhooks."""
