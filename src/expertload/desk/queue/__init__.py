"""The queue: gives each reader one case at a time, stores answers, settles disputes."""
