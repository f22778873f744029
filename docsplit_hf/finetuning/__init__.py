"""Fine-tuning with a decoupled representation."""
