"""Parts that pretraining and fine-tuning share: arguments, processes, exact resuming, saving, model cards."""
