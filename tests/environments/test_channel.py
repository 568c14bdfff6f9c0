"""The owner's end of a sandbox's socket: frames go out whole and in order, and no request outlives the other side."""

import asyncio
import socket

import pytest

from swe_plugin.environments.sandbox.channel import Channel
from swe_plugin.environments.sandbox.zygote.frames import Decoder, encode
from swe_plugin.errors import EnvironmentUnavailable

LARGE = b"x" * (8 << 20)
"""More than a socket holds."""


@pytest.fixture
async def ends():
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    channel = Channel(ours, "here")
    yield channel, theirs
    channel.close()
    theirs.close()


async def received(theirs, number):
    """The next frames that the sandbox gets."""
    decoder, frames = Decoder(), []
    while len(frames) < number:
        frames += decoder.feed(await asyncio.get_running_loop().sock_recv(theirs, 1 << 16))
    return frames


async def test_answers_find_their_requests_in_any_order(ends):
    channel, theirs = ends
    first, second = (asyncio.ensure_future(channel.request({"op": name})) for name in ("a", "b"))
    (a, _), (b, _) = await received(theirs, 2)
    assert (a["op"], b["op"]) == ("a", "b")
    theirs.send(encode({"id": b["id"]}, b"B") + encode({"id": a["id"]}, b"A"))
    assert [payload for _, payload in await asyncio.gather(first, second)] == [b"A", b"B"]


async def test_a_frame_that_the_socket_does_not_hold_goes_out_whole_before_the_next(ends):
    channel, theirs = ends
    requests = [asyncio.ensure_future(channel.request({"op": "push"}, payload)) for payload in (LARGE, b"", LARGE)]
    await asyncio.sleep(0.05)
    frames = await received(theirs, 3)
    assert [len(payload) for _, payload in frames] == [len(LARGE), 0, len(LARGE)]
    for header, _ in frames:
        theirs.send(encode({"id": header["id"]}))
    await asyncio.gather(*requests)


async def test_a_request_that_is_cancelled_half_sent_is_sent_whole_and_then_its_end_is_waited_for(ends):
    channel, theirs = ends
    request = asyncio.ensure_future(channel.request({"op": "push"}, LARGE))
    await asyncio.sleep(0.05)
    request.cancel()
    (pushed, payload), (cancelled, _) = await received(theirs, 2)
    assert (payload, cancelled["op"], cancelled["target"]) == (LARGE, "cancel", pushed["id"])
    assert not request.done()
    theirs.send(encode({"id": pushed["id"], "cancelled": True}))
    with pytest.raises(asyncio.CancelledError):
        await request


@pytest.mark.parametrize("payload", [b"", LARGE], ids=["sent", "half sent"])
async def test_when_the_other_side_goes_every_request_ends(ends, payload):
    channel, theirs = ends
    requests = [asyncio.ensure_future(channel.request({"op": "push"}, payload)) for _ in range(3)]
    await asyncio.sleep(0.05)
    theirs.close()
    for request in requests:
        with pytest.raises(EnvironmentUnavailable, match="here: the sandbox is gone"):
            await asyncio.wait_for(request, 5)
    assert await channel.wait_closed(0)
    with pytest.raises(EnvironmentUnavailable):
        await channel.request({"op": "ping"})


async def test_what_was_said_before_the_end_is_heard_by_a_request_that_comes_too_late(ends):
    channel, theirs = ends
    theirs.send(encode({"id": 0, "error": "no room"}))
    theirs.close()
    header, _ = await asyncio.wait_for(channel.start({"plan": 1}), 5)
    assert header["error"] == "no room"


async def test_a_stream_that_makes_no_sense_ends_the_channel(ends, caplog):
    channel, theirs = ends
    request = asyncio.ensure_future(channel.request({"op": "ping"}))
    await asyncio.sleep(0)
    theirs.send(b"\0\0\0\2\0\0\0\0{{")
    with pytest.raises(EnvironmentUnavailable):
        await asyncio.wait_for(request, 5)
    assert "JSONDecodeError" in caplog.text


async def test_its_socket_can_be_given_away_between_requests(ends):
    channel, theirs = ends
    request = asyncio.ensure_future(channel.request({"op": "ping"}))
    ((header, _),) = await received(theirs, 1)
    theirs.send(encode({"id": header["id"]}))
    await request
    taken = Channel(socket.socket(fileno=channel.detach()), "there", first_id=header["id"] + 1)
    request = asyncio.ensure_future(taken.request({"op": "ping"}))
    ((later, _),) = await received(theirs, 1)
    assert later["id"] > header["id"]
    taken.close()
    with pytest.raises(EnvironmentUnavailable):
        await request
