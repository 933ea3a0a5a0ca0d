"""A model in a service: requests that come and go one by one, how long each waits, and networks that travel."""
