"""Trajectories of others, read and written: one module per format, `read_conversations` finds out which it is."""

from swe_plugin.trajectories.formats.conversation import Conversation
from swe_plugin.trajectories.formats.detect import FORMATS, read_conversations

__all__ = ["FORMATS", "Conversation", "read_conversations"]
