"""Exchanges: what travels in a round, and who therefore learns what. One exchange a file."""

from colonnade.agreement import Exchange
from colonnade.exchanges.asynchronous import Asynchronous
from colonnade.exchanges.event_driven import EventDriven
from colonnade.exchanges.relay import Relay
from colonnade.exchanges.split import Split

__all__ = ["Asynchronous", "EventDriven", "Exchange", "Relay", "Split"]
