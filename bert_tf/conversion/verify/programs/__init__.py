"""Programs that open a checkpoint as the users of its form do; each runs on its own, in its peer's environment."""
