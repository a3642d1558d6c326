"""The event feed and webhook deliveries: how they are read and shown."""
