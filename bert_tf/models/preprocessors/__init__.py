"""Preprocessors: from texts and labels to the inputs and targets of a model."""
