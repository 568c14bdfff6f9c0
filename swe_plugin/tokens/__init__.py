"""Tokens: the exact ids that were sampled, in the exact context they were sampled in.

`TokenRecorder` keeps the stream of one rollout as `Segment`s, `training_rows` turns them into rows,
`Journal` writes down what crossed the boundary to the inference server, and `audit_segments` proves that
the two agree. A `Renderer` turns conversations into ids; a `TokenServer` samples.
"""

from swe_plugin.tokens.audit import AuditReport, Violation, audit_segments
from swe_plugin.tokens.journal import Journal, JournalRecord, read_journal
from swe_plugin.tokens.prompt_log import prompt_digest
from swe_plugin.tokens.recorder import RecorderEvent, TokenRecorder
from swe_plugin.tokens.renderer import Piece, ReadsCalls, Renderer
from swe_plugin.tokens.rows import TokenRow, training_rows
from swe_plugin.tokens.segments import last_sampled, segment_faults
from swe_plugin.tokens.server import Completion, TokenServer
from swe_plugin.tokens.tool_calls import ParsedCalls, parse_tool_calls

__all__ = [
    "AuditReport",
    "Completion",
    "Journal",
    "JournalRecord",
    "ParsedCalls",
    "Piece",
    "ReadsCalls",
    "RecorderEvent",
    "Renderer",
    "TokenRecorder",
    "TokenRow",
    "TokenServer",
    "Violation",
    "audit_segments",
    "last_sampled",
    "parse_tool_calls",
    "prompt_digest",
    "read_journal",
    "segment_faults",
    "training_rows",
]
