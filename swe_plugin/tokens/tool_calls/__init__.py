"""Tool calls, read out of what a model wrote: one module per kind of form, `read` chooses and checks."""

from swe_plugin.tokens.tool_calls.form import CallForm, Found, WrittenCall
from swe_plugin.tokens.tool_calls.read import FORMS, ParsedCalls, find_form, parse_tool_calls

__all__ = ["FORMS", "CallForm", "Found", "ParsedCalls", "WrittenCall", "find_form", "parse_tool_calls"]
