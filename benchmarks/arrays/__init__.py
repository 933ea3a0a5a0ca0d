"""Arrays that grow with the samples, in temporary files where they are large."""
