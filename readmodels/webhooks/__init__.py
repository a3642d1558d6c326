"""The event feed and webhook deliveries as they are read."""
