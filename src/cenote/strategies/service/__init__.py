"""The strategy `service`."""

from cenote.strategies.service.strategy import ServiceStrategy

__all__ = ["ServiceStrategy"]
