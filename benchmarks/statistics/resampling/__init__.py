"""The Poisson bootstrap: weights of samples, weighted sums along curves, and what resamples read off them."""
