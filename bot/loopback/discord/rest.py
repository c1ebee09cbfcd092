"""The HTTP side: reads a request, lets faults, authorisation and rate limits have their say, runs the route, logs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import BodyPartReader, web

from .call import Call, Reply
from .errors import ApiError, Code, invalid_form, not_found, unauthorized
from .faults import RestFault, RestFaults
from .messages import Upload
from .ratelimits import Buckets, limited_body, limited_headers
from .world import World

PREFIX = "/api/v10"
Handler = Callable[[Call], Reply]


@dataclass(slots=True, frozen=True)
class Route:
    """One route; ``open`` ones carry their authority in the path (interaction tokens)."""

    method: str
    template: str
    handler: Handler
    open: bool = False


class _DroppedError(Exception):
    """The connection was cut on purpose; there is nobody to answer."""


class Rest:
    """Serves routes. Each is one synchronous function of a :class:`Call`, so no other request comes in between."""

    def __init__(self, world: World, faults: RestFaults, buckets: Buckets) -> None:
        self._world = world
        self._faults = faults
        self._buckets = buckets
        self.in_flight = 0

    def install(self, app: web.Application, routes: list[Route]) -> None:
        """Register the routes, and a 404 in Discord's words for all others."""
        for route in routes:
            app.router.add_route(route.method, PREFIX + route.template, self._served(route))
        unknown = Route("*", "/{tail}", self._unknown, open=True)
        app.router.add_route("*", PREFIX + "/{tail:.*}", self._served(unknown))

    def _unknown(self, _call: Call) -> Reply:
        raise not_found()

    def _served(self, route: Route) -> Callable[[web.Request], Any]:
        async def serve(request: web.Request) -> web.StreamResponse:
            self.in_flight += 1
            try:
                return await self._serve(route, request)
            except _DroppedError:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=500)
            finally:
                self.in_flight -= 1

        return serve

    async def _serve(self, route: Route, request: web.Request) -> web.StreamResponse:
        try:
            call = await _parsed(request, route.template)
        except ValueError:
            return _json_response(Reply(ApiError(Code.INVALID_JSON).body(), status=400))
        except OSError:
            raise _DroppedError from None
        fault = self._faults.take(call)
        if fault is not None:
            self._log_fault(call, fault)
            if fault.when == "before":
                replaced = await self._strike(fault)
                if replaced is not None:
                    self._log(call, replaced.status, by_fault=True)
                    return replaced
        reply = self._run(route, call, request.headers.get("Authorization"))
        if fault is not None and fault.when == "after":
            self._log(call, reply.status)
            replaced = await self._strike(fault)
            return replaced if replaced is not None else _json_response(reply)
        self._log(call, reply.status)
        return _json_response(reply)

    def _run(self, route: Route, call: Call, authorization: str | None) -> Reply:
        if not route.open and authorization != f"Bot {self._world.config.token}":
            return Reply(unauthorized().body(), status=401)
        verdict = self._buckets.take(call.method, call.template, call.major)
        if verdict.retry_after_s is not None:
            return Reply(limited_body(verdict.retry_after_s, is_global=False), status=429, headers=verdict.headers)
        try:
            reply = route.handler(call)
        except ApiError as error:
            return Reply(error.body(), status=error.status, headers=verdict.headers)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A body of quite another shape. Discord says 50035 too; the record is for whoever sent it without wanting to.
            self._world.log.append("request.malformed", method=call.method, path=call.path, text=repr(error))
            return Reply(invalid_form("_errors", "MODEL_TYPE_CONVERT", "Malformed body.").body(), status=400, headers=verdict.headers)
        headers = {**verdict.headers, **reply.headers}
        return Reply(reply.body, reply.status, headers, reply.raw, reply.content_type)

    async def _strike(self, fault: RestFault) -> web.StreamResponse | None:
        """Act as the fault; None lets the request go on."""
        if fault.effect == "delay":
            await self._world.clock.sleep(fault.seconds)
            return None
        if fault.effect == "hang":
            await fault.released.wait()
            raise _DroppedError
        if fault.effect == "drop":
            raise _DroppedError
        if fault.effect == "refuse":
            error = ApiError(fault.code)
            return _json_response(Reply(error.body(), status=error.status))
        if fault.effect == "rate_limit":
            scope = "global" if fault.is_global else "user"
            body = limited_body(fault.seconds, is_global=fault.is_global)
            return _json_response(Reply(body, status=429, headers=limited_headers(fault.seconds, scope=scope)))
        page = "<html><head><title>error</title></head><body>error code: 1015</body></html>"
        return web.Response(status=fault.status, text=page, content_type="text/html", headers={"Server": "cloudflare"})

    def _log_fault(self, call: Call, fault: RestFault) -> None:
        detail = {"effect": fault.effect, "when": fault.when, "status": fault.status, "seconds": fault.seconds}
        self._world.log.append("fault", method=call.method, path=call.path, nonce=_nonce(call), detail=detail)

    def _log(self, call: Call, status: int, *, by_fault: bool = False) -> None:
        self._world.log.append(
            "request",
            method=call.method,
            path=call.path,
            status=status,
            nonce=_nonce(call),
            detail={"by_fault": True} if by_fault else None,
        )


def _nonce(call: Call) -> str | None:
    nonce = call.json.get("nonce")
    return None if nonce is None else str(nonce)


async def _parsed(request: web.Request, template: str) -> Call:
    """Read the request. Raises ValueError for bad JSON, OSError when the client went away."""
    body: Any = None
    files: list[Upload] = []
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                continue
            content = await part.read(decode=True)
            if part.name == "payload_json":
                body = json.loads(content)
            elif part.filename:
                kind = part.headers.get("Content-Type", "application/octet-stream")
                files.append(Upload(part.filename, bytes(content), kind))
    elif request.can_read_body:
        text = await request.text()
        body = json.loads(text) if text else None
    return Call(
        method=request.method,
        path=request.path.removeprefix(PREFIX),
        template=template,
        params=dict(request.match_info),
        query=dict(request.query),
        body=body,
        files=tuple(files),
    )


def _json_response(reply: Reply) -> web.Response:
    if reply.raw is not None:
        return web.Response(status=reply.status, body=reply.raw, headers={**reply.headers, "Content-Type": reply.content_type})
    if reply.status == 204:  # noqa: PLR2004  # No Content
        return web.Response(status=204, headers=dict(reply.headers))
    # The type without a charset: clients take a body as JSON only when it is exactly this.
    body = json.dumps(reply.body).encode()
    return web.Response(status=reply.status, body=body, headers={**reply.headers, "Content-Type": "application/json"})
