"""Traces over OTLP: their settings, their ids, their export."""
