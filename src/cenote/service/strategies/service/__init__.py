"""The strategy `service`."""

from cenote.service.strategies.service.strategy import ServiceStrategy

__all__ = ["ServiceStrategy"]
