"""Policies: what answers an agent, with a model behind it or without.

`Policy` is the contract. `TokenPolicy` asks an inference server in token ids and records the stream that is
trained; `ScriptedPolicy` plays a script; `ScriptedTokenServer` stands in for the inference server, so that
the whole token path can run without a model.
"""

from swe_plugin.policies.base import Policy
from swe_plugin.policies.limits import TokenLimits
from swe_plugin.policies.scripted import ScriptedAnswer, ScriptedPolicy
from swe_plugin.policies.scripted_server import Answer, ScriptedTokenServer, ServerCall
from swe_plugin.policies.token_policy import TokenPolicy

__all__ = [
    "Answer",
    "Policy",
    "ScriptedAnswer",
    "ScriptedPolicy",
    "ScriptedTokenServer",
    "ServerCall",
    "TokenLimits",
    "TokenPolicy",
]
