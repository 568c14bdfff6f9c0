"""The ASGI application: routes, keys, bodies, and errors in OpenAI's shape. What answers is a `Session`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from swe_plugin.gateway.errors import ApiError
from swe_plugin.gateway.request import read_request
from swe_plugin.gateway.response import chunks, completion
from swe_plugin.gateway.session import MODEL, Session

__all__ = ["MAX_BODY_BYTES", "build_app"]

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 16 << 20
BODY_TIMEOUT_S = 60.0
_CLIENT_GONE = 499
_T = TypeVar("_T")


def build_app(find: Callable[[Request], Session]) -> Starlette:
    """The application.

    Args:
        find: the session of a request; raises `ApiError` if it has none.
    """

    async def answer(request: Request) -> Response:
        session = find(request)
        try:
            async with session.reading:
                chat = read_request(await _body(request), MODEL)
            reply = await _unless_gone(request, session.answer(chat))
        except ApiError:
            raise
        except Exception as error:  # a bug of the gateway is not the agent's
            session.fail(error)
            raise
        if reply is None:
            session.note("a client went away before its answer came; it was given up")
            return Response(status_code=_CLIENT_GONE)
        if chat.stream:
            events = chunks(reply, MODEL, session.calls, usage=chat.usage_in_stream)
            return StreamingResponse(events, media_type="text/event-stream")
        return _json(completion(reply, MODEL, session.calls))

    async def models(request: Request) -> Response:
        find(request)
        return _json({"object": "list", "data": [_MODEL]})

    async def model(request: Request) -> Response:
        find(request)
        if request.path_params["name"] != MODEL:
            raise ApiError(404, f"there is no model {request.path_params['name']!r} here", "model_not_found")
        return _json(_MODEL)

    async def refused(request: Request, error: Exception) -> Response:
        refusal = _refusal(request, error)
        with contextlib.suppress(ApiError):  # no key of a rollout: nobody's
            find(request).note(str(refusal))
        return _json(refusal.body, refusal.status, refusal.headers)

    routes = [
        Route("/v1/chat/completions", answer, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
    ]
    handlers = {ApiError: refused, HTTPException: refused, Exception: _failed}
    return Starlette(routes=routes, exception_handlers=handlers)


_MODEL = {"id": MODEL, "object": "model", "created": 0, "owned_by": "swe-plugin"}


def _json(data: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """In ASCII, so that a lone surrogate, which a model can write, does not break it."""
    return Response(json.dumps(data), status, headers, media_type="application/json")


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise ApiError(413, f"the body is larger than {MAX_BODY_BYTES} bytes", "request_too_large")
    except TimeoutError:
        raise ApiError(408, f"the body did not come within {BODY_TIMEOUT_S:g} s", "request_timeout") from None
    return bytes(body)


async def _unless_gone(request: Request, answering: Awaitable[_T]) -> _T | None:
    """The answer, or None if the client disconnects before it is there; then it is cancelled."""
    work, gone = asyncio.ensure_future(answering), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        return None
    finally:
        for task in (work, gone):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ApiError):
                await task


def _refusal(request: Request, error: Exception) -> ApiError:
    """What a client is told of what it did wrong."""
    if isinstance(error, HTTPException):
        message = f"{request.method} {request.url.path}: {error.detail}; there is /v1/chat/completions and /v1/models"
        return ApiError(error.status_code, message, "not_served")
    assert isinstance(error, ApiError)
    return error


async def _failed(_: Request, error: Exception) -> Response:
    logger.error("the gateway failed", exc_info=error)
    told = ApiError(500, f"{type(error).__name__}: {error}", "internal_error")
    return _json(told.body, told.status, told.headers)
