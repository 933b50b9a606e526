"""Evaluation during training: metrics, baselines and sample predictions."""
