"""The cache on disk: manifest, safetensors files, shards, and how an interrupted write is taken up."""
