"""OpenAI's chat protocol in front of a rollout's policy, so that any agent can be trained. See docs/gateway.md.

Importing this is light; ``starlette`` and ``uvicorn`` (extra ``gateway``) are imported when a gateway is first opened.
"""

from swe_plugin.gateway.server import Gateway
from swe_plugin.gateway.session import MODEL, Session

__all__ = ["MODEL", "Gateway", "Session"]
