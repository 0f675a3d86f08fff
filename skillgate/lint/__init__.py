"""The static half: rule files x skills -> findings. Risks with their evidence, never predictions."""
