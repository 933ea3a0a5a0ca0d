"""Multi-exit models on Hugging Face encoders: train, collect, infer live, count the cost."""
