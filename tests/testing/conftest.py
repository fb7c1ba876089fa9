"""The plugin's own fixtures, whether it is installed or not."""

from __future__ import annotations

from oncestream.testing import plugin

broker, broker_process, broker_settings = plugin.broker, plugin.broker_process, plugin.broker_settings
