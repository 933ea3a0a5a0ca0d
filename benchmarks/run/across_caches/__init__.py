"""What several caches say together: which of them share rows or networks, averages, and the errors of averages."""
